#include "checkpoint/shard.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/text.h"
#include "checkpoint/copy.h"
#include "checkpoint/internal/text_forms.h"
#include "checkpoint/safetensors.h"

namespace longhaul::checkpoint {
namespace {

constexpr uint32_t kShardFormat = 2;
constexpr size_t kHexDigits = 16;

std::string HashKey(const TensorInfo& tensor) { return "chunks:" + tensor.name; }
std::string PartKey(const TensorInfo& tensor) { return "part:" + tensor.name; }

TextMap IdMetadata(const ShardId& id) {
  return {{"longhaul.format", std::to_string(kShardFormat)},
          {"longhaul.step", std::to_string(id.step)},
          {"longhaul.attempt", std::to_string(id.attempt)},
          {"longhaul.rank", std::to_string(id.rank)},
          {"longhaul.world", std::to_string(id.world)}};
}

std::string NumbersText(const std::vector<int64_t>& numbers) {
  std::vector<std::string> texts;
  for (const int64_t number : numbers) texts.push_back(std::to_string(number));
  return "[" + Join(texts, ",") + "]";
}

std::string PartText(const TensorPart& part) {
  return "{\"of\":" + internal::Quoted(part.of) + ",\"shape\":" + NumbersText(part.shape) +
         ",\"offset\":" + NumbersText(part.offset) + "}";
}

std::optional<std::vector<int64_t>> ReadNumbers(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array() || found->size() > kMaxDims) return std::nullopt;
  std::vector<int64_t> numbers;
  for (const nlohmann::json& number : *found) {
    if (!number.is_number_unsigned() || number.get<uint64_t>() > kMaxStateBytes) {
      return std::nullopt;
    }
    numbers.push_back(number.get<int64_t>());
  }
  return numbers;
}

// Only the text that PartText writes; what it says is checked by StatePlan.
std::optional<TensorPart> ReadPart(const std::string& text) {
  const nlohmann::json parsed = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return std::nullopt;
  const auto of = parsed.find("of");
  if (of == parsed.end() || !of->is_string()) return std::nullopt;
  const auto shape = ReadNumbers(parsed, "shape");
  const auto offset = ReadNumbers(parsed, "offset");
  if (!shape || !offset) return std::nullopt;
  TensorPart part{of->get<std::string>(), *shape, *offset};
  if (PartText(part) != text) return std::nullopt;
  return part;
}

// `chunks` follows from the tensor's size, which has been checked against the size of the file. So
// the number of hashes is bounded before memory is reserved.
Result<std::vector<uint64_t>> ReadHashes(const std::string& text, uint64_t chunks) {
  if (text.size() != chunks * kHexDigits) return DataLoss("has not a hash for each chunk");
  std::vector<uint64_t> hashes;
  hashes.reserve(chunks);
  for (size_t at = 0; at < text.size(); at += kHexDigits) {
    const auto hash = internal::FromHex(std::string_view(text).substr(at, kHexDigits));
    if (!hash) return DataLoss("has a malformed hash");
    hashes.push_back(*hash);
  }
  return hashes;
}

// Takes a key out of the metadata; nothing when it is absent.
std::optional<std::string> Take(TextMap& metadata, const std::string& key) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return std::nullopt;
  std::string value = std::move(found->second);
  metadata.erase(found);
  return value;
}

Result<ShardId> TakeId(TextMap& metadata) {
  ShardId id;
  uint64_t rank = 0, world = 0, format = 0;
  // Versions before 0.1 wrote the attempt's number under the second key.
  const char* attempt_key =
      metadata.contains("longhaul.attempt") ? "longhaul.attempt" : "longhaul.epoch";
  const std::pair<const char*, uint64_t*> kFields[] = {{"longhaul.format", &format},
                                                       {"longhaul.step", &id.step},
                                                       {attempt_key, &id.attempt},
                                                       {"longhaul.rank", &rank},
                                                       {"longhaul.world", &world}};
  for (const auto& [key, value] : kFields) {
    const std::optional<std::string> text = Take(metadata, key);
    const Result<uint64_t> number = text ? ParseUint64(*text) : NotFound("");
    // Only the canonical decimal text: each shard has one valid header, so equal states have equal
    // bytes.
    if (!number.ok() || std::to_string(*number) != *text) {
      return DataLoss("the header lacks a sound " + std::string(key));
    }
    *value = *number;
  }
  if (format != kShardFormat) {
    return DataLoss("the shard is of format " + std::to_string(format) + ", not 2");
  }
  if (id.step == 0 || world == 0 || world > UINT32_MAX || rank >= world) {
    return DataLoss("the header's step, rank and world make no sense");
  }
  id.rank = static_cast<uint32_t>(rank);
  id.world = static_cast<uint32_t>(world);
  return id;
}

// The global tensor's index in the manifest, added if it is new.
// Each rank describes the global tensor of which it has a part. The first description is taken, and
// all others have to agree.
Result<uint32_t> GlobalTensor(const TensorInfo& tensor, Manifest& manifest,
                              std::unordered_map<std::string, uint32_t>& known) {
  const auto next = static_cast<uint32_t>(manifest.tensors.size());
  const auto [found, added] = known.emplace(tensor.global_name(), next);
  if (added) {
    manifest.tensors.push_back({tensor.global_name(), tensor.dtype, tensor.global_shape(), {}});
  } else {
    const TensorInfo& there = manifest.tensors[found->second];
    if (there.dtype != tensor.dtype || there.shape != tensor.global_shape()) {
      return DataLoss("ranks disagree on what tensor " + Printable(there.name) + " is");
    }
  }
  return found->second;
}

}  // namespace

uint64_t ChunksIn(uint64_t bytes) { return (bytes + kChunkBytes - 1) / kChunkBytes; }

ChunkHashes HashTensors(std::span<const std::span<const std::byte>> tensors) {
  ChunkHashes hashes;
  for (const auto tensor : tensors) {
    std::vector<uint64_t>& chunks = hashes.emplace_back();
    for (size_t at = 0; at < tensor.size(); at += kChunkBytes) {
      chunks.push_back(HashChunk(tensor.subspan(at, std::min(kChunkBytes, tensor.size() - at))));
    }
  }
  return hashes;
}

uint64_t HashOfChunks(std::span<const uint64_t> chunks) {
  return Hash64(chunks.data(), chunks.size_bytes());
}

Result<std::string> EncodeShardHeader(const ShardId& id, const StatePlan& plan,
                                      const ChunkHashes& chunks) {
  CHECK(chunks.size() == plan.size());
  TextMap metadata = IdMetadata(id);
  for (size_t i = 0; i < plan.size(); ++i) {
    CHECK(chunks[i].size() == ChunksIn(plan.bytes(i)));
    const TensorInfo& tensor = plan.tensors()[i];
    std::string hashes;
    for (const uint64_t hash : chunks[i]) hashes += internal::Hex(hash);
    metadata[HashKey(tensor)] = std::move(hashes);
    if (tensor.part) metadata[PartKey(tensor)] = PartText(*tensor.part);
  }
  return EncodeSafetensorsHeader(plan, metadata);
}

Result<ShardHeader> ParseShardHeader(std::span<const std::byte> header, uint64_t file_bytes) {
  ASSIGN_OR_RETURN(SafetensorsHeader parsed, ParseSafetensorsHeader(header, file_bytes));
  ShardHeader shard;
  ASSIGN_OR_RETURN(shard.id, TakeId(parsed.metadata));
  std::vector<TensorInfo> tensors = parsed.plan.tensors();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string what = "tensor " + Printable(tensors[i].name) + " ";
    const auto hashes = Take(parsed.metadata, HashKey(tensors[i]));
    if (!hashes) return DataLoss(what + "has no hashes");
    Result<std::vector<uint64_t>> chunks = ReadHashes(*hashes, ChunksIn(parsed.plan.bytes(i)));
    if (!chunks.ok()) return DataLoss(what + chunks.status().message());
    shard.chunks.push_back(std::move(chunks).value());
    if (const auto part = Take(parsed.metadata, PartKey(tensors[i]))) {
      tensors[i].part = ReadPart(*part);
      if (!tensors[i].part) return DataLoss(what + "has a malformed part");
    }
  }
  // Everything known has been taken out of the metadata. A rest means a newer writer, whose meaning
  // this reader would lose.
  if (!parsed.metadata.empty()) {
    return DataLoss("unknown metadata " + Printable(parsed.metadata.begin()->first));
  }
  Result<StatePlan> plan = StatePlan::Create(std::move(tensors));
  if (!plan.ok()) return DataLoss(plan.status().message());
  shard.plan = std::move(plan).value();
  shard.offsets = std::move(parsed.offsets);
  shard.header_bytes = header.size();
  shard.hash = Hash64(header.data(), header.size());
  return shard;
}

// The size is compared first: a file that was cut short fails here, with a message that names both
// sizes.
Result<ShardHeader> ReadShardHeader(const io::ReadableFile& opened, const PieceFile& file) {
  if (opened.bytes() != file.bytes) {
    return DataLoss("it has " + std::to_string(opened.bytes()) + " bytes, not " +
                    std::to_string(file.bytes));
  }
  std::vector<std::byte> header(sizeof(uint64_t));
  if (file.bytes < header.size()) return DataLoss("the file is too short for a header");
  RETURN_IF_ERROR(opened.Read(0, header));
  ASSIGN_OR_RETURN(const uint64_t bytes, SafetensorsHeaderBytes(header, file.bytes));
  header.resize(bytes);
  RETURN_IF_ERROR(opened.Read(0, header));
  if (Hash64(header.data(), header.size()) != file.hash) {
    return DataLoss("the header's hash differs");
  }
  return ParseShardHeader(header, file.bytes);
}

Status ReadVerified(const io::ReadableFile& opened, const ShardHeader& header, size_t tensor,
                    uint64_t begin, std::span<std::byte> to) {
  const uint64_t bytes = header.plan.bytes(tensor);
  CHECK(begin <= bytes && to.size() <= bytes - begin);
  // A chunk is verified as a whole, so a partial read at either end goes through a buffer; whole
  // chunks are read to their destination without a copy.
  std::vector<std::byte> beside;
  for (uint64_t at = begin; at < begin + to.size();) {
    const uint64_t chunk = at / kChunkBytes;
    const uint64_t chunk_at = chunk * kChunkBytes;
    const uint64_t chunk_bytes = std::min<uint64_t>(kChunkBytes, bytes - chunk_at);
    const uint64_t end = std::min(begin + to.size(), chunk_at + chunk_bytes);
    std::span<std::byte> target = to.subspan(at - begin, end - at);
    const bool whole = target.size() == chunk_bytes;
    if (!whole) beside.resize(chunk_bytes);
    const std::span<std::byte> read = whole ? target : std::span(beside);
    RETURN_IF_ERROR(opened.Read(header.offsets[tensor] + chunk_at, read));
    if (HashChunk(read) != header.chunks[tensor][chunk]) {
      return DataLoss("tensor " + Printable(header.plan.tensors()[tensor].name) + ", chunk " +
                      std::to_string(chunk) + ": the hash differs");
    }
    if (!whole) {
      const auto from = read.subspan(at - chunk_at, target.size());
      std::copy(from.begin(), from.end(), target.begin());
    }
    at = end;
  }
  return {};
}

// Called once for each file, after the file was added to `manifest.files`. Pieces are appended in
// the order of the header, which is the order of their offsets.
Status AddPieces(const ShardHeader& header, Manifest& manifest) {
  CHECK(!manifest.files.empty());
  PieceFile& file = manifest.files.back();
  const ShardId wanted{manifest.step, manifest.attempt, file.rank, manifest.world};
  if (header.id != wanted) return DataLoss("it belongs to another step, attempt, rank or world");
  file.header_bytes = header.header_bytes;
  std::unordered_map<std::string, uint32_t> known;
  for (size_t i = 0; i < manifest.tensors.size(); ++i) {
    known.emplace(manifest.tensors[i].name, static_cast<uint32_t>(i));
  }
  for (size_t i = 0; i < header.plan.size(); ++i) {
    const TensorInfo& tensor = header.plan.tensors()[i];
    ASSIGN_OR_RETURN(const uint32_t global, GlobalTensor(tensor, manifest, known));
    const Box box =
        tensor.part ? Box::At(tensor.part->offset, tensor.shape) : Box::Whole(tensor.shape);
    manifest.pieces.push_back({global, static_cast<uint32_t>(manifest.files.size() - 1),
                               tensor.name, box, header.offsets[i],
                               HashOfChunks(header.chunks[i])});
  }
  return {};
}

}  // namespace longhaul::checkpoint
