// Estimates reads a schema and rules from its input and writes what a stock API server estimates each rule to cost at most:
//
//	go run ./estimates <rules.json >estimates.json
//
// The input is {"schema": …, "rules": ["self.a == 1", …]}, the output {"schema": …, "cases": [["self.a == 1", 3], …]}.
package main

import (
	"encoding/json"
	"log"
	"os"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	var input struct {
		Schema json.RawMessage `json:"schema"`
		Rules  []string        `json:"rules"`
	}
	check(json.NewDecoder(os.Stdin).Decode(&input))
	var external v1.JSONSchemaProps
	check(json.Unmarshal(input.Schema, &external))
	var props apiextensions.JSONSchemaProps
	check(v1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&external, &props, nil))
	structural, err := schema.NewStructural(&props)
	check(err)
	for _, rule := range input.Rules {
		structural.XValidations = append(structural.XValidations, v1.ValidationRule{Rule: rule})
	}
	declared := model.SchemaDeclType(structural, true)
	env := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	results, err := cel.Compile(structural, declared, celconfig.PerCallLimit, env, cel.StoredExpressionsEnvLoader())
	check(err)
	var cases [][2]any
	for i, rule := range input.Rules {
		if results[i].Error != nil {
			log.Fatalf("%s: %s", rule, results[i].Error.Detail)
		}
		cases = append(cases, [2]any{rule, results[i].MaxCost})
	}
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	check(out.Encode(map[string]any{"schema": input.Schema, "cases": cases}))
}
