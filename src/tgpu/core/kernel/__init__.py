"""The loops that must be fast: plain Python on arrays, of which `compiled` makes machine code.

Every function here takes only numbers, arrays and the tuples of `shapes`, and calls only functions of this
package. Run as it is, it serves a small installation without loading a compiler; compiled, it is the same
code at full speed.
"""
