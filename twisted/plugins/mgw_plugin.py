"""What ``twistd`` offers: the gateway and the simulator."""

from twisted.application.service import ServiceMaker

mgw = ServiceMaker("mgw", "mgw.app.daemon", "A model gateway.", "mgw")
mgw_sim = ServiceMaker("mgw-sim", "mgw_sim.daemon", "A simulated model provider.", "mgw-sim")
