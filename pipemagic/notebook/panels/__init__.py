"""The panels, one file for each subject: a HasTraits model that knows no widgets, then its view."""
