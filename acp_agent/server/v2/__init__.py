"""Protocol version 2, a draft, which is imported if an editor asks for it. It reuses
the parts that are the same in version 1.
"""
