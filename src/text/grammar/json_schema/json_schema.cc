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
  QR_TRY(const auto document, SchemaDocument::read(schema, options.draft7 ? Draft::draft7 : Draft::draft2020));
  RxStore rx(limits.memory_bytes);
  NetworkBuilder net(rx, {});
  SchemaContext context(*document, rx, limits.fuel);
  Emitter emitter(context, net);
  QR_TRY(const Rule root, emitter.emit({context.sign(&document->root(), false)}));
  auto made = finish(net, rx, root, std::move(context.warnings));
  if (!made) return fail(made.error().code, "json_schema: #: " + made.error().message);
  return made;
}

Result<std::shared_ptr<const Grammar>> compile_json_object(const GrammarLimits& limits) {
  return compile_json_schema(R"({"type":"object"})", {}, limits);
}

}  // namespace quire
