// Package grafana holds what watches the service: two Grafana dashboards as
// code, and beside them the files that Prometheus and Grafana read.
//
//	dashboards    the generated JSON, one file a dashboard
//	prometheus    scrape config, recording rules, alerts, and their unit tests
//	provisioning  Grafana's data source and dashboard provider
//
// The names of metrics come from the code that registers them, so that no
// panel can ask for one that is not there. After a change here,
//
//	go test ./grafana -update
//
// writes the JSON anew; without -update the same test fails if it differs.
//
// Expressions give no point rather than NaN where there is nothing to divide:
// denominators are compared with 0 first, and quantiles of nothing are dropped
// by >= 0, which NaN is not.
package grafana
