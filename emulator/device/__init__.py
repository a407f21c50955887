"""Executes the final HIVM module with the vendor's template library, checked and costed."""
