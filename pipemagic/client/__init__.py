"""The client: the only code that sends HTTP. It needs neither IPython nor the service."""
