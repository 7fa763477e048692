// What this room holds for clients. Keys and values lie in blocks that are taken from the system before the first
// request comes: no request changes how much that is.
#include "base/held_memory.h"

#include "engine/engine.h"
#include "engine/explains.h"
#include "engine/limits.h"
#include "engine/queue_shares.h"
#include "kv/pins.h"
#include "kv/tiers/disk_tier.h"
#include "kv/tiers/remote_tier.h"

namespace quire {
namespace {

constexpr int64_t kIndexBytes = 48;  // of a token, at most (spec/proposers/ngram.cc)
constexpr int64_t kKnownBytes = 64;  // of one that the remote store is known to have, likewise
constexpr int64_t kEditBytes = sizeof(Edit);
constexpr int64_t kVoteBytes = 12;    // of a block of a prompt (engine/budget.h)
constexpr int64_t kContext = 32'768;  // for the numbers of this table; the model and --ctx say it

std::vector<HeldRow> rows() {
  const EngineOptions o;
  // Its tokens, which grow to the context.
  const int64_t sequence = int64_t{4} * kContext;
  return {
      {.what = "tokens of sequences that wait or run, in a context of 32768",
       .of_request = {"n_sequences × 4 × ctx", 1024 * sequence},
       .in_all = {"(max_queue × 9/8 + max_seqs) × 4 × ctx", (QueueShares::places(o.max_queue) + o.max_seqs) * sequence},
       .test = "EngineSubmit.RefusesWhatCanNeverRunWithLimitAndValue"},
      {.what = "what a proposer that looks words up remembers of sequences that run or were sent back (ngram, "
               "suffix)",
       .of_request = {"n_sequences × 48 × ctx", 1024 * kIndexBytes * kContext},
       .in_all = {"(max_queue × 9/8 + max_seqs) × 48 × ctx",
                  (QueueShares::places(o.max_queue) + o.max_seqs) * kIndexBytes * kContext},
       .test = "Ngram.SequencesKnowNothingOfEachOther"},
      {.what = "answers that suffix guesses from, by cache_salt",
       .in_all = {"16 salts × 65536 tokens × 24", int64_t{16} << 21},
       .test = "Suffix.TheLatestAnswersAreKept"},
      {.what = "votes for the blocks of prompts that have a kv_budget",
       .of_request = {"n_sequences × 12 × ctx / block", 1024 * kVoteBytes * kContext / o.block_tokens},
       .in_all = {"(max_queue × 9/8 + max_seqs) × 12 × ctx / block",
                  (QueueShares::places(o.max_queue) + o.max_seqs) * kVoteBytes * kContext / o.block_tokens},
       .test = "PromptBudget.KeepsTheFirstTheWindowAndTheMostVotes"},
      {.what = "edits of the logits of a step's rows: biases, penalties",
       .of_request = {"max_seqs × 12 × (ctx + n_logit_bias)", o.max_seqs * kEditBytes * (kContext + 1024)},
       .in_all = {"step_tokens × …", o.step_tokens * kEditBytes * (kContext + 1024)},
       .test = "EngineAlloc.AStepOfARunningBatchTakesNoMemory"},
      {.what = "logits of two steps that overlap (--overlap), on the host",
       .in_all = {"2 × max_seqs × 4 × vocabulary, at most 512 MiB", 2 * kMostSentBytes},
       .test = "EngineOverlap.TakesTheMemoryThatIsSaidForIt"},
      {.what = "counts by tenant, of those that have sequences",
       .in_all = {"64 × (max_queue × 9/8 + max_seqs)", 64 * (QueueShares::places(o.max_queue) + int64_t{o.max_seqs})},
       .test = "EngineAlloc.ASubmissionThatThrowsTakesNoPlaceInTheQueue"},
      {.what = "cached keys and values",
       .in_all = {"--kv-memory, taken at the start", 0},
       .test = "EngineSubmit.WhatJustFitsRunsToItsEnd"},
      {.what = "blocks on their way to the remote store and back, and names that are known there",
       .in_all = {"128 MiB, 16 blocks, 2^20 names",
                  RemoteTierOptions().queue_bytes + RemoteTierOptions().staging_bytes +
                      static_cast<int64_t>(RemoteTierOptions().n_known) * kKnownBytes},
       .test = "RemoteTier.WhatWaitsToBeStoredIsBoundedAndSoIsWhatWasBrought"},
      {.what = "tables of pinned prompts, whose blocks are of the cache",
       .in_all = {"2^20 blocks, and n_pins", PinLimits().n_named * int64_t{sizeof(GroupBlocks)} +
                                                 o.max_pins * int64_t{sizeof(Pins::Pin) + sizeof(PinView)}},
       .test = "EnginePins.AsManyAsTheOptionsSay"},
      {.what = "what the order of eviction knows of cached blocks, and of those that left last",
       .in_all = {"256 × blocks of --kv-memory, taken at the start", 0},
       .test = "Ghosts.TakeNothingMoreHoweverManyLeave"},
      {.what = "index of the blocks on disk, where --kv-disk names a folder",
       .in_all = {"192 × 2^21 blocks; what would be beyond makes the oldest go",
                  kIndexedBytes * StoreOptions().most_blocks},
       .test = "SegmentStore.TheIndexHasABoundHoweverSmallBlocksAre"},
      {.what = "blocks that wait to be written to disk, and those that were read and not taken",
       .in_all = {"64 MiB + 64 MiB + a block for each reader",
                  DiskTierOptions().queue_bytes + DiskTierOptions().staging_bytes},
       .test = "DiskTier.TheQueueIsBoundedAndWhatComesBeyondIsRefused"},
      {.what = "how long cached blocks are to stay",
       .in_all = {"some 100 bytes a block, which --retain-share bounds", 0},
       .test = "Retention.ATenantsWishesEndAtItsShareAndAtThatOfAll"},
      {.what = "how long blocks on disk are to stay",
       .in_all = {"128 × 2^19 blocks, and --retain-share of --kv-disk-size", 128 * (StoreOptions().most_blocks / 4)},
       .test = "StoredWishes.HaveABoundInAllAndForEachTenant"},
      {.what = "copies of preempted sequences",
       .in_all = {"--swap-memory: a quarter of --kv-memory, or none", 0},
       .test = "EngineSwap.CopiesHaveABoundAndTheTreeIsLeft"},
      {.what = "cache blocks on their way between the host and a device (--backend cuda)",
       .in_all = {"2 × 8 MiB of pinned memory", int64_t{16} << 20},
       .test = "BlockCopies.BytesComeAndGoThroughARing"},
      {.what = "evicted blocks of which is remembered when and for whom they left",
       .in_all = {"2^16 names", kMostDepartures * int64_t{2 * sizeof(Hash128) + sizeof(Departure)}},
       .test = "EngineExplain.SaysWhenAndForWhomABlockWasEvicted"},
  };
}

QR_REGISTER(HeldRows, "engine", rows);

}  // namespace
}  // namespace quire
