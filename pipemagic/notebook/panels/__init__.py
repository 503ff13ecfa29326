"""The panels, a package for each subject: a HasTraits model that knows no page, and a view that draws it.

`opening` says which panels there are and opens one; `ground` is what all of them stand on: work in the background, the
tree that views draw, its faces, the widget and the page's own files. What the organization has is asked once for all
panels, in `holdings`; `standing` is what its panels show as long as it cannot be asked.
"""
