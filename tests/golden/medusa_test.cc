// Medusa heads against plain Python in double precision (make_medusa_fixtures.py): the same tokens on the reference
// backend and every instruction set, in any company, to any depth; and folders that are refused by name.
#include "model/medusa.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "backend/cpu/cpu_ops.h"
#include "backend/ref/ref_ops.h"
#include "base/rng.h"
#include "quant/weight_format.h"
#include "spec/proposer.h"
#include "tests/support/head_folder.h"
#include "tests/support/json_file.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "tests/golden/medusa";
constexpr int kHeads = 3;

class Shape final : public ShapeModel {
 public:
  Shape(int n_embd, int n_vocab, bool has_taps = true) : ShapeModel(n_embd, n_vocab) { info_.has_taps = has_taps; }
};

struct Case {
  std::vector<float> state;
  std::vector<Token> tokens;
};

struct Expected {
  int n_embd = 0, n_vocab = 0;
  std::vector<Case> cases;
};

Expected read_expected() {
  const Json json = read_json(std::string(kFolder) + "/expected.json");
  Expected out{static_cast<int>(*json.find("n_embd")->as_int()), static_cast<int>(*json.find("n_vocab")->as_int()), {}};
  for (const Json& item : *json.find("cases")->as_array()) {
    Case& one = out.cases.emplace_back();
    for (const Json& v : *item.find("state")->as_array()) one.state.push_back(static_cast<float>(v.number()));
    for (const Json& v : *item.find("tokens")->as_array()) one.tokens.push_back(static_cast<Token>(*v.as_int()));
  }
  return out;
}

std::vector<std::unique_ptr<Ops>> all_ops() {
  std::vector<std::unique_ptr<Ops>> out;
  out.push_back(make_ref_ops());
  for (const std::string& isa : cpu_isas())
    out.push_back(std::move(*make_cpu_ops(CpuOptions{.n_threads = 2, .isa = isa, .pin = false})));
  return out;
}

// Each wants another depth, from rows in another order than they are asked for.
void check_drafts(const Expected& expected, Proposer& proposer) {
  const Tap& tap = proposer.taps().front();
  const auto n = static_cast<int>(expected.cases.size());
  Rng rng(5);
  for (int round = 0; round < 20; ++round) {
    std::vector<Draft> drafts;
    for (int i = 0; i < n; ++i) {
      const auto from = static_cast<size_t>((i * 7 + round) % n);
      std::ranges::copy(expected.cases[from].state, tap.out.row<float>(i));
      if (round % 3 == 1 && i % 4 != round % 4) continue;  // fewer
      Draft& draft = drafts.emplace_back();
      draft.seq = from;
      draft.tapped = round % 5 == 4 && i % 2 == 0 ? -1 : i;
      draft.max_tokens = static_cast<int>(rng.between(1, kHeads));
    }
    proposer.propose(drafts);
    for (const Draft& draft : drafts) {
      std::vector<Token> wanted = expected.cases[draft.seq].tokens;
      wanted.resize(draft.tapped < 0 ? 0 : static_cast<size_t>(draft.max_tokens));
      EXPECT_EQ(draft.tokens, wanted) << "state " << draft.seq;
    }
  }
}

TEST(Medusa, DraftsWhatTheReferenceDoes) {
  const Expected expected = read_expected();
  const auto n = static_cast<int>(expected.cases.size());
  ASSERT_GT(n, 10);
  const Shape model(expected.n_embd, expected.n_vocab);
  for (const std::unique_ptr<Ops>& ops : all_ops()) {
    SCOPED_TRACE(ops->describe());
    const auto heads = load_medusa(kFolder, model.info(), *ops);
    ASSERT_TRUE(heads) << heads.error().message;
    EXPECT_EQ((*heads)->n_heads(), kHeads) << "all that the file has, though the config says 2";
    ProposerEnv env{.target = &model, .ops = ops.get(), .n_ctx = 64, .max_seqs = n, .n_out = 2 * n};
    env.medusa = heads->get();
    const auto proposer = Registry<ProposerEntry>::get().find("medusa")->make({8}, env);
    ASSERT_TRUE(proposer) << proposer.error().message;
    EXPECT_EQ((*proposer)->max_draft(), kHeads);
    check_drafts(expected, **proposer);
  }
}

TEST(Medusa, DraftsNothingBehindAnEndToken) {
  const Expected expected = read_expected();
  const Shape model(expected.n_embd, expected.n_vocab);
  const auto ops = make_ref_ops();
  const auto heads = load_medusa(kFolder, model.info(), *ops);
  ASSERT_TRUE(heads) << heads.error().message;
  const ProposerEnv env{.target = &model, .ops = ops.get(), .max_seqs = 1, .n_out = 1, .medusa = heads->get()};
  const auto proposer = Registry<ProposerEntry>::get().find("medusa")->make({8}, env);
  ASSERT_TRUE(proposer);
  const Case& one = expected.cases.front();
  ASSERT_NE(one.tokens[0], one.tokens[1]);
  std::ranges::copy(one.state, (*proposer)->taps().front().out.row<float>(0));
  Draft draft;
  draft.tapped = 0;
  draft.max_tokens = kHeads;
  const std::vector<Token> ends = {one.tokens[1]};
  draft.ends = ends;
  (*proposer)->propose(std::span(&draft, 1));
  EXPECT_EQ(draft.tokens, std::vector(one.tokens.begin(), one.tokens.begin() + 2));
}

TEST(Medusa, NeedsHeadsAndAModelThatGivesItsStates) {
  const auto ops = make_ref_ops();
  const Shape bare(32, 48, false);
  ProposerEnv env{.target = &bare, .ops = ops.get(), .max_seqs = 1, .n_out = 1};
  const ProposerEntry& entry = *Registry<ProposerEntry>::get().find("medusa");
  EXPECT_NE(entry.make({8}, env).error().message.find("needs heads"), std::string::npos);
  const MedusaHeads heads;
  env.medusa = &heads;
  EXPECT_NE(entry.make({8}, env).error().message.find("a shape model gives none"), std::string::npos);
}

TEST(Medusa, SaysWhatItWillAllocate) {
  CountingOps ops(make_ref_ops());
  const Shape model(32, 48);
  const auto heads = load_medusa(kFolder, model.info(), ops);
  ASSERT_TRUE(heads) << heads.error().message;
  const ProposerEntry& entry = *Registry<ProposerEntry>::get().find("medusa");
  for (const int n : {1, 7, 64}) {
    ProposerEnv env{.target = &model, .max_seqs = n, .n_out = 3 * n, .medusa = heads->get()};
    const int64_t told = entry.bytes({2 + n % 8}, env);
    ops.n_bytes = 0;
    env.ops = &ops;
    ASSERT_TRUE(entry.make({2 + n % 8}, env));
    EXPECT_EQ(told, ops.n_bytes) << n;
  }
}

TEST(Medusa, MatricesAreConvertedWhereThatIsAsked) {
  const auto ops = make_ref_ops();
  const Shape model(32, 48);
  const auto kept = load_medusa(kFolder, model.info(), *ops);
  const auto packed = load_medusa(kFolder, model.info(), *ops, find_weight_format("q8_0"));
  ASSERT_TRUE(kept && packed);
  int64_t saved = 0;
  const auto compare = [&](const std::vector<Linear>& before, const std::vector<Linear>& after) {
    ASSERT_EQ(before.size(), after.size());
    for (size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(after[i].format->name, "q8_0");
      saved +=
          before[i].n_out * (before[i].format->row_bytes(before[i].n_in) - after[i].format->row_bytes(after[i].n_in));
    }
  };
  for (size_t j = 0; j < (*kept)->blocks.size(); ++j) compare((*kept)->blocks[j], (*packed)->blocks[j]);
  compare((*kept)->out, (*packed)->out);
  EXPECT_GT(saved, 0);
  EXPECT_EQ((*kept)->weight_bytes - (*packed)->weight_bytes, saved);
}

struct Changed : ChangedFolder {
  Changed() : ChangedFolder(kFolder, {"config.json", "medusa_lm_head.safetensors"}) {}
  // In the weights' header; of the same length.
  void rename(const std::string& from, const std::string& to) const {
    ASSERT_EQ(from.size(), to.size());
    put("medusa_lm_head.safetensors", from, to);
  }
  std::string refusal(int n_embd = 32, int n_vocab = 48) const {
    return ChangedFolder::refusal(
        [&](const std::string& path, Ops& ops) { return load_medusa(path, Shape(n_embd, n_vocab).info(), ops); });
  }
};

TEST(Medusa, FoldersOfAnotherModelAreRefusedByName) {
  const Changed same;
  EXPECT_NAMES(same.refusal(64, 48),
               "medusa_lm_head.safetensors: tensor \"0.0.linear.weight\": must have shape [64, 64] for this model, has "
               "[32, 32]");
  EXPECT_NAMES(same.refusal(32, 50), "tensor \"0.2.weight\": must have shape [50, 32] for this model, has [48, 32]");
}

TEST(Medusa, BrokenFoldersAreRefusedByName) {
  const auto with_config = [](const std::string& config) {
    Changed changed;
    changed.folder.write("config.json", config);
    return changed.refusal();
  };
  EXPECT_NAMES(with_config("{\"medusa_num_layers\": 2}"),
               "config.json: key \"medusa_num_heads\": must be 1 to 64, found nothing");
  EXPECT_NAMES(with_config(R"({"medusa_num_heads": 65, "medusa_num_layers": 2})"), "must be 1 to 64, found 65");
  EXPECT_NAMES(with_config(R"({"medusa_num_heads": 3, "medusa_num_layers": "2"})"),
               "key \"medusa_num_layers\": must be 1 to 16, found \"2\"");
  EXPECT_NAMES(with_config(R"({"medusa_num_heads": 4, "medusa_num_layers": 2})"),
               "tensor \"3.0.linear.weight\": is missing");
  EXPECT_NAMES(with_config(R"({"medusa_num_heads": 3, "medusa_num_layers": 1})"), "tensor \"0.1.weight\": is missing");
  EXPECT_NAMES(with_config("[]"), "config.json: must be an object");
  EXPECT_NAMES(with_config("{"), "config.json: ");
  Changed other;
  other.rename("1.1.linear.bias", "1.1.linear.bios");
  EXPECT_NAMES(other.refusal(), "tensor \"1.1.linear.bias\": is missing");
  Changed more;
  more.folder.write("config.json", R"({"medusa_num_heads": 2, "medusa_num_layers": 2})");
  more.rename("2.0.linear.weight", "9.0.linear.weight");
  EXPECT_NAMES(more.refusal(), "\": is not known for Medusa heads");
  Changed cut;
  fs::resize_file(cut.path("medusa_lm_head.safetensors"), 10'000);
  EXPECT_NAMES(cut.refusal(), "medusa_lm_head.safetensors: ");
}

TEST(Medusa, APickleIsRefusedByName) {
  Changed changed;
  fs::rename(changed.path("medusa_lm_head.safetensors"), changed.path("medusa_lm_head.pt"));
  EXPECT_NAMES(changed.refusal(), "medusa_lm_head.pt: is a pickle, which can run code and is not read");
  fs::remove(changed.path("medusa_lm_head.pt"));
  EXPECT_NAMES(changed.refusal(), "\"medusa_lm_head.safetensors\": there is no such file");
}

TEST(Medusa, AFolderOfHeadsIsKnownByItsConfig) {
  EXPECT_TRUE(is_medusa_folder(kFolder));
  EXPECT_FALSE(is_medusa_folder("build/golden/models/llama"));
  EXPECT_FALSE(is_medusa_folder("tests/golden/medusa/config.json"));
  EXPECT_FALSE(is_medusa_folder("/nowhere"));
  EXPECT_EQ(*medusa_bytes(kFolder), kHeads * (2 * (32 * 32 + 32) + 48 * 32) * 4);
}

}  // namespace
}  // namespace quire
