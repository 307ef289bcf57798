"""May these numbers be believed?"""
