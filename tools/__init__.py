"""Tools that turn the manuscript into notebooks, a website and proof."""
