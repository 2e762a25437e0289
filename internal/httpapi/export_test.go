package httpapi

// BodiesTaken returns how many bytes of bodies are counted.
func (a *API) BodiesTaken() int64 { return a.bodies.Taken("") }
