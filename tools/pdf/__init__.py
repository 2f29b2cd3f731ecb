"""The whole course as one PDF: the built pages put into one document, printed by Chromium, and checked."""
