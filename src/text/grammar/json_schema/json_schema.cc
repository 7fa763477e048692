// See json_schema.h (one folder up).
#include "text/grammar/json_schema.h"

#include "text/grammar/finish.h"
#include "text/grammar/json_schema/emitter.h"

namespace quire {

using namespace grammar;

Result<std::shared_ptr<const Grammar>> compile_json_schema(std::string_view schema,
                                                           JsonSchemaOptions options,
                                                           const GrammarLimits& limits) {
  if (schema.size() > limits.source_bytes) {
    return fail(Code::invalid, "json_schema: " + std::to_string(schema.size()) + " bytes, the limit is " +
                                   std::to_string(limits.source_bytes));
  }
  auto parsed = Json::parse(schema);
  if (!parsed) return fail(parsed.error().code, "json_schema: " + parsed.error().message);
  RxStore rx(limits.memory_bytes, limits.derivatives);
  NetworkBuilder net(rx, {});
  std::vector<std::string> warnings;
  QR_TRY(const Rule root, json_schema_rule(*parsed, options, limits.fuel, net, warnings));
  auto made = finish(net, rx, root, std::move(warnings));
  if (!made) return fail(made.error().code, "json_schema: #: " + made.error().message);
  return made;
}

Result<Rule> grammar::json_schema_rule(const Json& schema,
                                       JsonSchemaOptions options,
                                       size_t fuel,
                                       NetworkBuilder& net,
                                       std::vector<std::string>& warnings) {
  const auto document = SchemaDocument::of(schema, options.draft7 ? Draft::draft7 : Draft::draft2020);
  ValueSyntax syntax = ValueSyntax::json(net.rx());
  if (!options.string_mark.empty()) {
    const bool is_token = options.mark_token >= 0;
    const Rx mark = is_token ? net.control(options.mark_token) : net.rx().literal(options.string_mark);
    QR_TRY(syntax, ValueSyntax::marked(net.rx(), options.string_mark, mark));
  }
  SchemaContext context(*document, net.rx(), fuel, syntax);
  net.wide(context.chars.any());
  Emitter emitter(context, net);
  QR_TRY(const Rule root, emitter.emit({context.sign(&document->root(), false)}));
  warnings.insert(warnings.end(), context.warnings.begin(), context.warnings.end());
  return root;
}

Result<std::shared_ptr<const Grammar>> compile_json_object(const GrammarLimits& limits) {
  return compile_json_schema(R"({"type":"object"})", {}, limits);
}

}  // namespace quire
