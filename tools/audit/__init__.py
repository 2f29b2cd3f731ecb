"""How fast, light, accessible and self-contained the built pages are, against what the course promises."""
