"""Being moved into the chapters."""
