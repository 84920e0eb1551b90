"""How figures look, and the kinds of figure that several chapters share. The only modules beside chapters that import matplotlib."""
