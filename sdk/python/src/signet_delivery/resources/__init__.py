"""The resources of the API. Each method is one request, or a list of them."""
