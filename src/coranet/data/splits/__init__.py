"""Which cases are labelled, unlabelled, for validation and for test: by patient, or as a published protocol has it."""
