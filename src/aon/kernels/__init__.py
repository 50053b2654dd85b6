"""Matrix arithmetic of the maps: forward, backward and the functions they share."""
