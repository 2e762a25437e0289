// Package config reads the configuration: the defaults of config.yaml, then a file, then the
// environment. Every fault is reported at once, with its key, its value and what it must be.
//
// config.yaml at the root of the repository is the documentation and the source of the defaults.
// The table in settings.go says which keys there are, what each must be and where it goes; a test
// compares the three. Viper merges the sources and is seen by this package only.
package config
