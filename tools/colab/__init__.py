"""The course in Colab, as far as it can be tried here: an environment, a repository, every notebook."""
