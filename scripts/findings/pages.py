"""All pages of findings whose numbers are measured here; a new page is one module and one line."""

import flow_shapley
import main_paper
import readings
import sink

PAGES = (main_paper.PAGE, sink.PAGE, readings.PAGE, flow_shapley.PAGE)
