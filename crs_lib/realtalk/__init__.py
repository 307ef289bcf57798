"""RealTalk: over weeks of real chat, is the evidence for an answer found, ranked and kept?"""
