// The proposer that a head makes which goes on from the target's states (HeadPass): EAGLE's, or the one that a model
// carries. It has keys and values of its own, in a pool of its own without a prefix tree: its past of a sequence begins
// with the rows of the step before it was first asked, the end of a prompt as a rule, and begins anew where steps went
// by in which nobody guessed, or the sequence was preempted. So it computes nothing where nobody guesses, and a hit
// takes nothing away. Every round of guesses is one pass over all sequences that still want one. Engine thread.
#pragma once
#include <memory>
#include <unordered_map>
#include <vector>

#include "spec/head_pass.h"

namespace quire {

// How a chain draws: each guess its likeliest token, or as the target draws, for heads that know all of its tokens.
enum class HeadDraws : uint8_t { likeliest, alike };

class HeadChain final : public Proposer {
 public:
  struct Setting {
    int max_draft = 0, max_side = 0, n_blocks = 0;
    HeadPassSize size = {};
    HeadDraws draws = HeadDraws::likeliest;
  };
  // Of an engine like this, with a head that has `n_ctx` positions.
  static HeadPassSize size_of(const ProposerEnv& env, int n_ctx);
  // Takes blocks of the layout from `ops`. Errors as its allocate().
  static Result<std::unique_ptr<Proposer>> make(const Setting& setting,
                                                const KvLayout& layout,
                                                std::unique_ptr<HeadPass> pass,
                                                Ops& ops);
  HeadChain(const Setting& setting, const KvLayout& layout, std::unique_ptr<HeadPass> pass, std::vector<Buffer> blocks);

  int max_draft() const override { return setting_.max_draft; }
  int max_side() const override { return setting_.max_side; }
  std::span<const StreamTap> all_rows() const override { return pass_->tapped(); }
  void propose(std::span<Draft> drafts) override;
  void forget(SeqId id) override;

 private:
  // What the head has computed of a sequence: the rows of the tokens [begin, end) of its context and those behind them.
  struct Past {
    SeqKv kv;
    int begin = 0, end = 0;
    uint64_t call = 0;  // of propose() that last asked for it
  };
  struct Wanting {
    Draft* draft;
    Past* past;
    const LogitEdits* edits;
    std::vector<Token>* likely;  // in the place of its first guess
  };

  int begin(Draft& draft, size_t number, int room);
  bool grow(Past& past, int n);
  void write_on(bool first);

  const Setting setting_;
  KvCache cache_;
  std::unique_ptr<HeadPass> pass_;
  std::unordered_map<SeqId, Past> pasts_;
  uint64_t call_ = 0;
  // Of the call at hand; kept for their room.
  std::vector<LogitEdits> edits_;
  std::vector<std::vector<Token>> likely_;
  std::vector<HeadRows> rows_;
  std::vector<SampleParams> params_;
  std::vector<Wanting> wanting_;
};

}  // namespace quire
