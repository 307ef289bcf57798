"""Whether the numbers may be believed: controls, detectors, realism, and what people say."""
