"""Pictures from measurements, and other views from one view."""
