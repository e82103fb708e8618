"""Every public method of the three SDKs that does HTTP, called directly and through the gateway.

``methods`` finds what there is to call, ``arguments`` and ``special`` say with what, ``listed`` names what is
no request or what the contract answers otherwise, ``calls`` runs them, ``upstream`` records what came,
and ``differences`` holds what may differ between the two ways.
"""
