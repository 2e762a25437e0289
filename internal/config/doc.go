// Package config reads the configuration: the defaults of config.yaml, then a file, then the
// environment. It reports every fault at once, with its key, its value and what it must be.
//
// config.yaml at the root of the repository documents the keys and holds the defaults. The table in
// settings.go lists the keys, the values that they accept and their targets; a test compares the
// table, the file and Config. Only this package uses Viper, which merges the sources.
package config
