"""The movie study: does a conversational recommender follow a user whose wishes shift?"""
