package httpapi

import (
	"net/http"

	"github.com/budgetd/budgetd/internal/edge"
)

// Console answers the operator's page and its files.
type Console interface {
	Index(w http.ResponseWriter, r *http.Request)
	File(w http.ResponseWriter, r *http.Request)
}

// registerPage makes the routes of the console known, as far as there are any. They are open to
// everybody: what the page shows, it asks for with the key of who looks at it.
func (a *API) registerPage(config Config) {
	pages := map[string]http.HandlerFunc{}
	if config.Console != nil {
		pages["GET /{$}"], pages["GET /assets/{file}"] = config.Console.Index, config.Console.File
	}
	if login := config.Login; login != nil {
		pages["GET /console/login"], pages["GET /console/callback"] = login.Begin, login.Callback
		pages["POST /console/logout"] = login.End
	}
	for pattern, serve := range pages {
		page := route{pattern: pattern}
		page.find()
		a.handle(page, func(c *call) { c.pass(serve, edge.SecurePage) })
	}
}
