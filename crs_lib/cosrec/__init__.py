"""CoSRec: conversations that mix search and recommendation, from raw catalogue to scored runs."""
