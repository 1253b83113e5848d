package main

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// What Go's JSON does with each field of each API type, which OpenAPI does not tell: definition name,
// field name, "[*]scalar[=type][,omitempty][,omitzero][,in=embedded]". The scalar is empty for structs,
// lists, maps and types that write themselves; the type and the struct that a field is embedded by are
// there where messages name them.
func goTypes() map[string]map[string]string {
	check(apiextensions.AddToScheme(scheme.Scheme))
	check(apiregistration.AddToScheme(scheme.Scheme))
	found := map[string]map[string]string{}
	for gvk, kind := range scheme.Scheme.AllKnownTypes() {
		if gvk.Version != "__internal" {
			collect(kind, found)
		}
	}
	collect(reflect.TypeFor[metav1.Status](), found)
	return found
}

func collect(kind reflect.Type, found map[string]map[string]string) {
	switch kind.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array:
		collect(kind.Elem(), found)
		return
	case reflect.Struct:
	default:
		return
	}
	name := definition(kind)
	if _, seen := found[name]; seen || !strings.HasPrefix(kind.PkgPath(), "k8s.io/") || writesItself(kind) {
		return
	}
	fields := map[string]string{}
	found[name] = fields
	collectFields(kind, "", fields, found)
}

func collectFields(kind reflect.Type, in string, fields map[string]string, found map[string]map[string]string) {
	for i := range kind.NumField() {
		field := kind.Field(i)
		parts := strings.Split(field.Tag.Get("json"), ",")
		options := parts[1:]
		if field.Anonymous && parts[0] == "" {
			inner := field.Name
			if in != "" {
				inner = in + "." + inner
			}
			collectFields(field.Type, inner, fields, found)
			continue
		}
		if !field.IsExported() || parts[0] == "-" || parts[0] == "" {
			continue
		}
		text := describe(field.Type, options)
		if in != "" {
			text += ",in=" + in
		}
		fields[parts[0]] = text
		collect(field.Type, found)
	}
}

func describe(kind reflect.Type, options []string) string {
	text := ""
	if kind.Kind() == reflect.Pointer {
		text = "*"
		kind = kind.Elem()
	}
	if !writesItself(kind) {
		switch kind.Kind() {
		case reflect.String, reflect.Bool, reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Float64:
			text += kind.Kind().String()
		}
	}
	if kind.String() != kind.Kind().String() {
		text += "=" + kind.String()
	}
	for _, option := range options {
		if option == "omitempty" || option == "omitzero" {
			text += "," + option
		}
	}
	return text
}

func writesItself(kind reflect.Type) bool {
	pointer := reflect.PointerTo(kind)
	return pointer.Implements(jsonMarshaler) || pointer.Implements(textMarshaler)
}

// The name of a type in the OpenAPI documents.
func definition(kind reflect.Type) string {
	if named, ok := reflect.New(kind).Interface().(interface{ OpenAPIModelName() string }); ok {
		return named.OpenAPIModelName()
	}
	parts := strings.Split(kind.PkgPath(), "/")
	host := strings.Split(parts[0], ".")
	for i, j := 0, len(host)-1; i < j; i, j = i+1, j-1 {
		host[i], host[j] = host[j], host[i]
	}
	return strings.Join(append(host, append(parts[1:], kind.Name())...), ".")
}
