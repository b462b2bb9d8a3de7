"""The report of a campaign: what it says is put together once, and written as a page and on paper."""
