"""Protocol version 2, a draft: imported if an editor asks for it. It reuses what is the
same in version 1.
"""
