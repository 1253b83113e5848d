package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// How API types lie in protobuf, from the tags of their fields: for each served kind ("apps/v1 Deployment";
// options such as DeleteOptions, which belong to every version, go by their kind alone) the place of its
// message, and the messages as pairs of definition name and fields. A field is
//
//	number:what:name[:GoName]
//
// with the Go name only where it is not the JSON name with a capital; a name is empty for an embedded
// struct, which is a message of its own in protobuf and none in JSON. `what` is, in this order,
//
//	? omitempty, ~ omitzero
//	* pointer, [ list, { map by string
//	s string, b bool, i int32, l int64, d double, y bytes, m<place> message,
//	n named list of strings that is a message, and the types with their own JSON: t Time, u MicroTime,
//	q Quantity, o IntOrString, x RawExtension, f FieldsV1, j JSON, and those of JSON schemas, which are
//	followed by the place of JSONSchemaProps: A or array, B or bool, S or array of strings
type protobufTable struct {
	Kinds    map[string]int `json:"kinds"`
	Messages [][2]string    `json:"messages"`
}

// The types whose JSON is not that of their fields.
var ownForm = map[string]string{
	"io.k8s.apimachinery.pkg.apis.meta.v1.Time":                                             "t",
	"io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime":                                        "u",
	"io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1":                                         "f",
	"io.k8s.apimachinery.pkg.api.resource.Quantity":                                         "q",
	"io.k8s.apimachinery.pkg.util.intstr.IntOrString":                                       "o",
	"io.k8s.apimachinery.pkg.runtime.RawExtension":                                          "x",
	"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON":                         "j",
	"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray":       "A",
	"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool":        "B",
	"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray": "S",
}

var protobufMarshaler = reflect.TypeFor[interface{ Marshal() ([]byte, error) }]()

// Messages are known by name while they are collected and by place in the end.
type protobufTypes struct {
	places  map[string]int
	structs map[string]reflect.Type
}

// Every kind of the served versions, and those of the API's own answers.
func servedKinds(discovery []byte) map[string]reflect.Type {
	kinds := map[string]reflect.Type{}
	for version := range served(discovery) {
		for kind, goType := range scheme.Scheme.KnownTypes(version) {
			name := version.String() + " " + kind
			switch of := goType.PkgPath() == reflect.TypeFor[metav1.Status]().PkgPath(); {
			case of && strings.HasSuffix(kind, "Options"):
				name = kind
			case of && kind == "WatchEvent":
				continue
			}
			kinds[name] = goType
		}
	}
	for _, object := range []any{metav1.PartialObjectMetadata{}, metav1.PartialObjectMetadataList{}} {
		goType := reflect.TypeOf(object)
		kinds["meta.k8s.io/v1 "+goType.Name()] = goType
	}
	for _, object := range []any{apidiscovery.APIGroupDiscovery{}, apidiscovery.APIGroupDiscoveryList{}} {
		goType := reflect.TypeOf(object)
		kinds["apidiscovery.k8s.io/v2 "+goType.Name()] = goType
	}
	return kinds
}

func protobufFields(kinds map[string]reflect.Type) protobufTable {
	types := protobufTypes{map[string]int{}, map[string]reflect.Type{}}
	for _, goType := range kinds {
		types.collect(goType)
	}
	names := make([]string, 0, len(types.structs))
	for name := range types.structs {
		names = append(names, name)
	}
	sort.Strings(names)
	for place, name := range names {
		types.places[name] = place
	}

	table := protobufTable{Kinds: map[string]int{}}
	for name, goType := range kinds {
		if place, ok := types.places[definition(goType)]; ok {
			table.Kinds[name] = place
		}
	}
	for _, name := range names {
		table.Messages = append(table.Messages, [2]string{name, types.fields(types.structs[name])})
	}
	return table
}

func served(discovery []byte) map[schema.GroupVersion]bool {
	var groups []apidiscovery.APIGroupDiscovery
	check(json.Unmarshal(discovery, &groups))
	versions := map[schema.GroupVersion]bool{}
	for _, group := range groups {
		for _, version := range group.Versions {
			versions[schema.GroupVersion{Group: group.Name, Version: version.Version}] = true
		}
	}
	return versions
}

func (t protobufTypes) collect(kind reflect.Type) {
	switch kind.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		t.collect(kind.Elem())
		return
	case reflect.Struct:
	default:
		return
	}
	name := definition(kind)
	if _, seen := t.structs[name]; seen || ownForm[name] == "t" || ownForm[name] == "u" || ownForm[name] == "q" {
		return
	}
	if !reflect.PointerTo(kind).Implements(protobufMarshaler) {
		return
	}
	if ownForm[name] == "" {
		t.structs[name] = kind
	}
	for i := range kind.NumField() {
		if number(kind.Field(i)) > 0 {
			t.collect(kind.Field(i).Type)
		}
	}
}

func number(field reflect.StructField) int {
	parts := strings.Split(field.Tag.Get("protobuf"), ",")
	if len(parts) < 2 {
		return 0
	}
	number, err := strconv.Atoi(parts[1])
	check(err)
	return number
}

func (t protobufTypes) fields(kind reflect.Type) string {
	type numbered struct {
		number int
		text   string
	}
	var fields []numbered
	for i := range kind.NumField() {
		field := kind.Field(i)
		options := strings.Split(field.Tag.Get("json"), ",")
		name := options[0]
		number := number(field)
		if number == 0 {
			if name != "" {
				check(fmt.Errorf("%s.%s has no place in protobuf", kind, field.Name))
			}
			continue
		}
		if name == "-" || name == "" && !field.Anonymous {
			check(fmt.Errorf("%s.%s has no name in JSON", kind, field.Name))
		}
		what := ""
		if slices.Contains(options[1:], "omitempty") {
			what += "?"
		}
		if slices.Contains(options[1:], "omitzero") {
			what += "~"
		}
		text := strconv.Itoa(number) + ":" + what + t.holds(field.Type) + ":" + name
		if name == "" || strings.ToUpper(name[:1])+name[1:] != field.Name {
			text += ":" + field.Name
		}
		fields = append(fields, numbered{number, text})
	}
	sort.Slice(fields, func(a, b int) bool { return fields[a].number < fields[b].number })
	texts := make([]string, len(fields))
	for i, field := range fields {
		texts[i] = field.text
	}
	return strings.Join(texts, " ")
}

func (t protobufTypes) holds(kind reflect.Type) string {
	wraps := kind.Implements(protobufMarshaler)
	switch {
	case kind.Kind() == reflect.Pointer:
		return "*" + t.single(kind.Elem())
	case kind.Kind() == reflect.Slice && kind.Elem().Kind() != reflect.Uint8 && !wraps:
		return "[" + t.single(kind.Elem())
	case kind.Kind() == reflect.Map && kind.Key().Kind() == reflect.String && !wraps:
		return "{" + t.single(kind.Elem())
	}
	return t.single(kind)
}

func (t protobufTypes) single(kind reflect.Type) string {
	switch kind.Kind() {
	case reflect.String:
		return "s"
	case reflect.Bool:
		return "b"
	case reflect.Int32:
		return "i"
	case reflect.Int64:
		return "l"
	case reflect.Float64:
		return "d"
	case reflect.Slice:
		if kind.Elem().Kind() == reflect.Uint8 {
			return "y"
		}
		if kind.Elem().Kind() == reflect.String && kind.Implements(protobufMarshaler) {
			return "n"
		}
	case reflect.Struct:
		name := definition(kind)
		if form := ownForm[name]; form != "" {
			if strings.Contains("ABS", form) {
				form += strconv.Itoa(t.places[name[:strings.LastIndex(name, "Or")]])
			}
			return form
		}
		if place, ok := t.places[name]; ok && !writesItself(kind) {
			return "m" + strconv.Itoa(place)
		}
	}
	check(fmt.Errorf("%s has no known form in protobuf", kind))
	return ""
}
