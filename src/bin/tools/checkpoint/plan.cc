// plan: what a layout's ranks would read of a checkpoint.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "bin/table.h"
#include "bin/tools/checkpoint/parts.h"
#include "checkpoint/formats/catalog_reader.h"
#include "checkpoint/formats/open_checkpoint.h"
#include "checkpoint/reshard/layout_rules.h"
#include "io/files/file.h"
#include "objects/files.h"

namespace longhaul::bin::checkpoints {
namespace {

using checkpoint::Catalog;
using checkpoint::ReadPlan;
using checkpoint::WantedShard;

constexpr uint64_t kMaxRules = 16 << 20;
constexpr size_t kMaxRows = 64;

struct PlanFlags {
  std::string path;
  std::string layout;
  std::string rules;
  int64_t rank = -1;
  std::string zero_form = "flat";
  uint32_t zero_group = 0;
  uint32_t ranks_per_host = 0;
  uint64_t gap = 0;
  bool json = false;
};

// What one reader reads: a rank alone, or the ranks of a host together.
struct Reader {
  uint32_t first_rank = 0;
  uint32_t ranks = 1;
  uint64_t shards = 0;
  uint64_t reads = 0;
  uint64_t bytes_wanted = 0;
  uint64_t bytes_needed = 0;
  uint64_t bytes_read = 0;
  uint64_t bytes_verified = 0;  // in whole chunks
  size_t files = 0;
};

Result<Reader> PlanReader(const Catalog& catalog, const checkpoint::ShardingProblem& problem,
                          const spec::Layout& layout, uint32_t first, uint32_t ranks,
                          uint64_t gap) {
  Reader reader{first, ranks, 0, 0, 0, 0, 0, 0, 0};
  std::vector<WantedShard> wanted;
  for (uint32_t rank = first; rank < first + ranks; ++rank) {
    const auto shards = ShardsOfRank(problem, layout, rank);
    wanted.insert(wanted.end(), shards.begin(), shards.end());
  }
  ASSIGN_OR_RETURN(const ReadPlan plan,
                   PlanReads(catalog.shards, wanted, catalog.ElementBytes(), catalog.Names(), gap));
  reader.shards = wanted.size();
  reader.reads = plan.reads.size();
  reader.bytes_wanted = plan.bytes_wanted;
  reader.bytes_needed = plan.bytes_needed;
  reader.bytes_read = plan.bytes_read;
  uint32_t last = UINT32_MAX;
  for (const auto& read : plan.reads) {
    reader.files += read.file != last ? 1 : 0;
    last = read.file;
  }
  for (const auto& block : BlocksOf(catalog, plan, true)) reader.bytes_verified += block.bytes;
  return reader;
}

std::string SizeText(uint64_t bytes) { return ToString(Bytes(static_cast<int64_t>(bytes))); }

void PlanJson(const Catalog& catalog, const checkpoint::NamedSharding& sharding,
              const std::vector<Reader>& readers) {
  nlohmann::ordered_json json;
  json["path"] = catalog.path;
  json["bytes"] = catalog.TotalBytes();
  json["layers"] = sharding.layers;
  json["experts"] = sharding.experts;
  json["unmatched"] = sharding.unmatched;
  json["readers"] = nlohmann::ordered_json::array();
  for (const Reader& reader : readers) {
    json["readers"].push_back({{"first_rank", reader.first_rank},
                               {"ranks", reader.ranks},
                               {"shards", reader.shards},
                               {"files", reader.files},
                               {"reads", reader.reads},
                               {"bytes_wanted", reader.bytes_wanted},
                               {"bytes_needed", reader.bytes_needed},
                               {"bytes_read", reader.bytes_read},
                               {"bytes_read_verified", reader.bytes_verified}});
  }
  Print(json);
}

void PlanTable(const Catalog& catalog, const checkpoint::NamedSharding& sharding,
               const std::vector<Reader>& readers) {
  std::printf("%s: %zu tensors, %s; %u layers, %u experts\n", Clean(catalog.path).c_str(),
              catalog.tensors.size(), SizeText(catalog.TotalBytes()).c_str(), sharding.layers,
              sharding.experts);
  Table table({"RANKS", "SHARDS", "FILES", "READS", "WANTED", "NEEDED", "READ", "VERIFIED"});
  Reader sum;
  for (size_t i = 0; i < readers.size(); ++i) {
    const Reader& reader = readers[i];
    sum.reads += reader.reads;
    sum.bytes_needed += reader.bytes_needed;
    sum.bytes_read += reader.bytes_read;
    sum.bytes_verified += reader.bytes_verified;
    if (i >= kMaxRows) continue;
    const std::string first = std::to_string(reader.first_rank);
    table.Add(
        {reader.ranks == 1 ? first
                           : first + "-" + std::to_string(reader.first_rank + reader.ranks - 1),
         std::to_string(reader.shards), std::to_string(reader.files), std::to_string(reader.reads),
         SizeText(reader.bytes_wanted), SizeText(reader.bytes_needed), SizeText(reader.bytes_read),
         SizeText(reader.bytes_verified)});
  }
  std::printf("%s", table.Text().c_str());
  if (readers.size() > kMaxRows) {
    std::printf("... and %zu more (--json has all)\n", readers.size() - kMaxRows);
  }
  std::printf("in all: %llu reads, %s needed, %s read, %s in whole verified chunks\n",
              static_cast<unsigned long long>(sum.reads), SizeText(sum.bytes_needed).c_str(),
              SizeText(sum.bytes_read).c_str(), SizeText(sum.bytes_verified).c_str());
  if (!sharding.unmatched.empty()) {
    std::printf("%zu tensors match no rule and are whole on every rank, the first %s (--rules)\n",
                sharding.unmatched.size(), Clean(sharding.unmatched.front()).c_str());
  }
}

int Plan(const PlanFlags& flags) {
  const auto layout = checkpoint::ParseLayout(flags.layout);
  if (!layout.ok()) {
    Fail(layout.status());
    return kExitUsage;
  }
  std::vector<checkpoint::NameRule> rules = checkpoint::BuiltInRules();
  if (!flags.rules.empty()) {
    const auto text = io::ReadText(flags.rules, kMaxRules);
    if (!text.ok()) return Fail(text.status());
    auto own = checkpoint::ParseNameRules(*text);
    if (!own.ok()) return Fail(own.status().WithContext(flags.rules));
    rules = std::move(own).value();
  }
  const auto place = objects::Place::Open(flags.path);
  if (!place.ok()) return Fail(place.status());
  const auto catalog = checkpoint::OpenCheckpoint(place->files(), place->path());
  if (!catalog.ok()) return Fail(catalog.status());
  const checkpoint::NamedSharding sharding = ShardingOf(catalog->tensors, rules);
  checkpoint::ShardingProblem problem = sharding.problem();
  problem.zero_group = flags.zero_group;
  if (flags.zero_form == "rows") problem.zero_form = checkpoint::ZeroForm::kRows;
  const Status fits = CheckSharding(problem, *layout);
  if (!fits.ok()) return Fail(fits.WithContext("--layout " + flags.layout));
  const auto world = static_cast<uint32_t>(layout->devices());
  if (flags.rank >= int64_t{world}) {
    Fail(InvalidArgument("--rank " + std::to_string(flags.rank) + " of " + std::to_string(world)));
    return kExitUsage;
  }
  const uint32_t each = std::max(1u, flags.ranks_per_host);
  Progress progress("planned");
  std::vector<Reader> readers;
  for (uint32_t first = 0; first < world; first += each) {
    const bool wanted = flags.rank < 0 || (flags.rank >= first && flags.rank < first + each);
    if (!wanted) continue;
    const auto reader =
        PlanReader(*catalog, problem, *layout, first, std::min(each, world - first), flags.gap);
    if (!reader.ok()) return Fail(reader.status());
    readers.push_back(*reader);
    if (!progress.Seen(first, world)) return FailOrStopped(CancelledError("stopped"));
  }
  if (flags.json) {
    PlanJson(*catalog, sharding, readers);
  } else {
    PlanTable(*catalog, sharding, readers);
  }
  return kExitOk;
}

}  // namespace

void AddPlan(CLI::App& command, Action& action) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App* sub = command.add_subcommand(
      "plan", "Show what each rank of a layout would read from a checkpoint");
  sub->add_option("CHECKPOINT", flags->path, "Checkpoint of any format")->required();
  sub->add_option("--layout", flags->layout, "tp=2,pp=4,dp=8,zero=1; also cp, ep, etp, vpp")
      ->required();
  sub->add_option("--rules", flags->rules, "How tensors are cut, as JSON (docs)");
  sub->add_option("--zero-form", flags->zero_form,
                  "How ZeRO cuts: flat (one buffer a rank) or rows (each tensor, as fully_shard)")
      ->check(CLI::IsMember({"flat", "rows"}));
  sub->add_option("--zero-group", flags->zero_group,
                  "ZeRO over groups of so many replicas (HSDP); else over all")
      ->check(CLI::Range(1u, 65536u));
  sub->add_option("--rank", flags->rank, "This rank alone")->check(CLI::NonNegativeNumber);
  sub->add_option("--ranks-per-host", flags->ranks_per_host,
                  "Ranks that read together, each byte once")
      ->check(CLI::Range(1u, 1024u));
  sub->add_option("--gap", flags->gap, "Reads at most so many bytes apart become one")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 30));
  sub->add_flag("--json", flags->json, "Print one JSON object");
  sub->footer(
      "Examples:\n"
      "  longhaul checkpoint plan runs/headers-gpt --layout tp=2,dp=4,zero=1\n"
      "  longhaul checkpoint plan runs/headers-gpt --layout dp=8,zero=3 --zero-form rows\n"
      "  longhaul checkpoint plan model.safetensors --layout pp=2,dp=2 --rank 3 --json");
  sub->callback([flags, &action] { action = [flags] { return Plan(*flags); }; });
}

}  // namespace longhaul::bin::checkpoints
