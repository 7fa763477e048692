#include "text/parse/bare_calls.h"

#include "base/json.h"

namespace quire {

bool BareCalls::push(char c) {
  if (!item_) {
    if (is_json_space(c)) return true;
    item_.emplace(rules_, true);
  }
  const CallItem::Step step = item_->push(c);
  if (step == CallItem::Step::more) return true;
  if (step == CallItem::Step::broken) return false;
  std::string arguments = item_->take_arguments();
  const auto parsed = Json::parse(arguments);
  if (!parsed || parsed->as_object() == nullptr) return false;
  calls_.push_back({item_->name(), std::move(arguments)});
  item_.reset();
  return true;
}

}  // namespace quire
