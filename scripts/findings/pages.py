"""All pages of findings whose numbers are measured here; a new page is one module and one line."""

import agreement
import flow_shapley
import identifiability
import league
import main_paper
import protocols
import readings
import sink

PAGES = (
    main_paper.PAGE,
    sink.PAGE,
    readings.PAGE,
    identifiability.PAGE,
    agreement.PAGE,
    flow_shapley.PAGE,
    protocols.PAGE,
    league.PAGE,
)
