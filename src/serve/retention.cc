#include "serve/retention.h"

#include <algorithm>
#include <limits>

namespace quire {
namespace {

constexpr double kMostMs = static_cast<double>(kMostRetentionNs / 1'000'000);
constexpr double kMostTokens = std::numeric_limits<int32_t>::max();

constexpr Field kConfig[] = {
    field_of("token_range_retention_configs", kArray, &ServeLimits::n_retention_ranges),
    integer_field("decode_retention_priority", 0, kMostPriority),
    integer_field("decode_duration_ms", 1, kMostMs),
    unsupported("transfer_mode", "\"DRAM\""),
    unsupported("directory", "\"\""),
};
constexpr Field kRange[] = {
    integer_field("token_start", 0, kMostTokens),
    integer_field("token_end", 1, kMostTokens),
    integer_field("priority", 0, kMostPriority),
    integer_field("duration_ms", 1, kMostMs),
};

int64_t duration_of(const Args& args, std::string_view field) {
  return args.has(field) ? args.integer(field, 0) * 1'000'000 : kMostRetentionNs;
}

ApiResult<RetentionRange> read_range(const Json& item, const Reading& reading, const std::string& path) {
  static const Schema kSchema({kRange});
  if (item.as_object() == nullptr) return refuse(bad_field(path, "must be an object", "invalid_type"));
  QR_TRY(const Args args, kSchema.check(item, reading, path));
  RetentionRange out;
  out.begin = static_cast<int>(args.integer("token_start", 0));
  out.end = static_cast<int>(args.integer("token_end", -1));
  out.priority = static_cast<int>(args.integer("priority", kUsualPriority));
  out.duration_ns = duration_of(args, "duration_ms");
  if (out.end < 0 || out.end > out.begin) return out;
  return refuse(bad_field(path + ".token_end", "is " + std::to_string(out.end) + ": the range begins at token_start, " +
                                                   std::to_string(out.begin) + ", and has at least one token"));
}

ApiResult<Retention> read_config(const Json& config, const Reading& reading) {
  static const Schema kSchema({kConfig});
  const std::string path = "kv_cache_retention_config";
  QR_TRY(const Args args, kSchema.check(config, reading, path));
  Retention out;
  if (const Json* ranges = args.find("token_range_retention_configs")) {
    const Json::Array& items = *ranges->as_array();
    for (size_t i = 0; i < items.size(); ++i) {
      const std::string at = at_index(path + ".token_range_retention_configs", static_cast<int64_t>(i));
      QR_TRY(const RetentionRange range, read_range(items[i], reading, at));
      out.prompt.push_back(range);
    }
  }
  out.answer.priority = static_cast<int>(args.integer("decode_retention_priority", kUsualPriority));
  out.answer.duration_ns = duration_of(args, "decode_duration_ms");
  return out;
}

}  // namespace

ApiResult<Retention> read_retention(const Args& args, const Reading& reading) {
  const std::string_view named = args.text("prompt_cache_retention");
  const bool day = named == "24h";
  if (args.has("prompt_cache_retention") && !day && named != "in_memory" && named != "in-memory")
    return refuse(bad_field("prompt_cache_retention", "is '" + shown(named) + "': there are in_memory and 24h"));
  const Json* config = args.find("kv_cache_retention_config");
  if (config == nullptr) {
    Retention out;
    if (day) out.prompt.push_back({0, -1, kMostPriority, kMostRetentionNs});
    return out;
  }
  if (day)
    return refuse(
        bad_field("prompt_cache_retention", "is 24h beside kv_cache_retention_config: a request has one of them"));
  return read_config(*config, reading);
}

std::vector<RetentionRange> retention_of(const Retention& retention, int n_prompt) {
  std::vector<RetentionRange> out;
  for (RetentionRange range : retention.prompt) {
    range.end = range.end < 0 ? n_prompt : std::min(range.end, n_prompt);
    if (range.begin < range.end) out.push_back(range);
  }
  if (retention.answer.priority == kUsualPriority) return out;
  RetentionRange answer = retention.answer;
  answer.begin = n_prompt;
  answer.end = std::numeric_limits<int32_t>::max();
  out.push_back(answer);
  return out;
}

}  // namespace quire
