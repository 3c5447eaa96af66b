"""Stories recorded from YuniKorn's REST API, played again and compared.

`python -m tests.rest FOLDER` plays the stories of a folder in the format of `golden/`: the steps of
`1.4-NAME.story.json` are played on the core under a virtual clock, and at each dump the requests of
`head-NAME.jsonl.gz` are sent to the REST application. `compare.py` finds the differences; `transforms.py` and
`rules.py` have the documented reasons for which some are right. Without recordings of head the answers of 1.4 are
compared, as `projection.py` puts them.
"""
