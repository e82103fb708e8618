"""What a translation costs, beside passing through and beside two libraries that translate as well."""
