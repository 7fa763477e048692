// A remote tier of tests: a map in memory that several engines share and that tells, keeps silent or lies as it is
// told.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "kv/tiers/tier.h"

namespace quire {

// What engines have in common.
struct Store {
  struct Block {
    Spelling spelling;
    TierBlock block;
  };
  std::map<Hash128, Block> blocks;
};

enum class Mood : uint8_t { honest, silent, boastful, forgetful };

// An engine's way to it. Answers come when the test says so, or at once.
class StoreTier final : public Tier {
 public:
  explicit StoreTier(Store& store) : store_(store) {}
  TierPlace place() const override { return TierPlace::remote; }
  TierWish wish(const LeavingBlock&) override { return TierWish::wants; }
  bool take(const Spelling& block, TierBlock bytes) override {
    store_.blocks[block.name] = {block, std::move(bytes)};
    return true;
  }
  uint8_t find(const Hash128&) override { return 0; }
  std::shared_ptr<TierAnswer> ask(std::vector<Hash128> names) override {
    ++n_asked;
    auto out = std::make_shared<TierAnswer>(std::move(names));
    at_once ? answer(*out) : open_.push_back(out);
    return out;
  }
  // What was not answered at once.
  void answer() {
    for (const auto& open : open_) answer(*open);
    open_.clear();
  }
  void bring(const std::shared_ptr<TierRead>& read, size_t begin, size_t end) override {
    for (size_t i = begin; i < end; ++i) {
      const auto at = store_.blocks.find(read->wanted(i).name);
      const bool has = at != store_.blocks.end() && mood != Mood::forgetful && at->second.spelling == read->wanted(i);
      has ? read->give(i, at->second.block, nullptr) : read->lose(i);
    }
  }
  int64_t predict_ns(int64_t n) override { return n == 0 ? ask_ns : n * block_ns; }
  TierStats stats() const override { return {.place = TierPlace::remote}; }
  void on_arrival(std::function<void()>) override {}
  void stop() override {}

  Mood mood = Mood::honest;
  bool at_once = true;
  int n_asked = 0;
  int64_t ask_ns = 0, block_ns = 1;

 private:
  void answer(TierAnswer& to) const {
    if (mood == Mood::silent) return;
    std::vector<uint8_t> groups;
    for (const Hash128& name : to.names()) {
      const auto at = store_.blocks.find(name);
      if (at == store_.blocks.end() && mood != Mood::boastful) break;
      groups.push_back(at == store_.blocks.end() ? uint8_t{1} : at->second.block.groups);
    }
    to.tell(std::move(groups));
  }

  Store& store_;
  std::vector<std::shared_ptr<TierAnswer>> open_;
};

}  // namespace quire
