"""The panel of the organization: switching, overages, use and quotas."""
