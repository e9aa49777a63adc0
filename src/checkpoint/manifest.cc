#include "checkpoint/manifest.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "base/hash.h"
#include "base/text.h"
#include "checkpoint/internal/text_forms.h"

namespace longhaul::checkpoint {
namespace {

using internal::FromHex;
using internal::Hex;
using internal::Quoted;
using nlohmann::json;

constexpr uint32_t kFormatVersion = 2;
constexpr uint64_t kMaxRank = std::numeric_limits<uint32_t>::max();
constexpr std::string_view kHashPrefix = "xxh3-64:";
constexpr size_t kHashLineBytes = 8 + 16 + 1;  // prefix, digits, line end

// Fills a manifest from JSON; fields that are absent or of another type are left and counted.
// One flag at the end instead of an error for each field: the hash has been verified by then, so a
// wrong field means a foreign or newer writer, and which field it is matters little.
class Reader {
 public:
  void Read(const json& from, const char* key, uint64_t& to) {
    const auto found = from.find(key);
    if (found == from.end() || !found->is_number_unsigned()) {
      ++missing_;
    } else {
      to = found->get<uint64_t>();
    }
  }
  void Read(const json& from, const char* key, uint32_t& to) {
    uint64_t wide = 0;
    Read(from, key, wide);
    if (wide > std::numeric_limits<uint32_t>::max()) ++missing_;
    to = static_cast<uint32_t>(wide);
  }
  void Read(const json& from, const char* key, bool& to) {
    const auto found = from.find(key);
    if (found == from.end() || !found->is_boolean()) {
      ++missing_;
    } else {
      to = found->get<bool>();
    }
  }
  void Read(const json& from, const char* key, std::string& to) {
    const auto found = from.find(key);
    if (found == from.end() || !found->is_string()) {
      ++missing_;
    } else {
      to = found->get<std::string>();
    }
  }
  // The limits keep products of extents within 64 bits before CheckSense examines them.
  void Read(const json& from, const char* key, std::vector<int64_t>& to) {
    const auto found = from.find(key);
    if (found == from.end() || !found->is_array() || found->size() > kMaxDims) {
      ++missing_;
      return;
    }
    for (const json& number : *found) {
      const bool sound = number.is_number_unsigned() && number.get<uint64_t>() <= kMaxStateBytes;
      if (!sound) ++missing_;
      to.push_back(sound ? number.get<int64_t>() : 0);
    }
  }
  void Read(const json& from, const char* key, std::vector<uint32_t>& to) {
    const json none = json::array();
    for (const json& number : Part(from, key, none)) {
      const bool sound = number.is_number_unsigned() && number.get<uint64_t>() <= kMaxRank;
      if (!sound) ++missing_;
      to.push_back(sound ? number.get<uint32_t>() : 0);
    }
  }
  void ReadHash(const json& from, const char* key, uint64_t& to) {
    std::string text;
    Read(from, key, text);
    const std::optional<uint64_t> value = FromHex(text);
    if (!value) ++missing_;
    to = value.value_or(0);
  }
  // An empty value of the wanted kind when it is absent.
  const json& Part(const json& from, const char* key, const json& otherwise) {
    const auto found = from.find(key);
    if (found != from.end() && found->type() == otherwise.type()) return *found;
    ++missing_;
    return otherwise;
  }

  void Refuse() { ++missing_; }
  bool complete() const { return missing_ == 0; }

 private:
  int missing_ = 0;
};

// Each rank's state is in one file; with replicated state rank 0's is enough.
Status CheckRanks(const Manifest& manifest) {
  std::set<uint32_t> served;
  for (const PieceFile& file : manifest.files) served.insert(file.rank);
  for (const PieceFile& file : manifest.files) {
    for (size_t i = 0; i < file.also.size(); ++i) {
      const uint32_t rank = file.also[i];
      const bool rising = i == 0 || rank > file.also[i - 1];
      if (manifest.replicated || rank >= manifest.world || !rising || !served.insert(rank).second) {
        return DataLoss("the ranks of " + file.name + " make no sense");
      }
    }
  }
  if (manifest.replicated || served.size() == manifest.world) return {};
  return DataLoss("it has the state of " + std::to_string(served.size()) + " ranks of " +
                  std::to_string(manifest.world));
}

Status CheckFiles(const Manifest& manifest) {
  if (manifest.step == 0 || manifest.world == 0) return DataLoss("step and world are from 1");
  if (manifest.validation_loss && !std::isfinite(*manifest.validation_loss)) {
    return DataLoss("its validation loss is no number");
  }
  if (manifest.files.empty()) return DataLoss("it names no files");
  for (size_t i = 0; i < manifest.files.size(); ++i) {
    const PieceFile& file = manifest.files[i];
    if (file.rank >= manifest.world || (i > 0 && file.rank <= manifest.files[i - 1].rank)) {
      return DataLoss("its ranks are out of order");
    }
    // Also keeps a name from leading out of the directory.
    if (file.name != PieceName(file.rank, manifest.world)) {
      return DataLoss("the file of rank " + std::to_string(file.rank) + " has a wrong name");
    }
    if (file.header_bytes > file.bytes) {
      return DataLoss("the header of " + file.name + " is longer than the file");
    }
  }
  return CheckRanks(manifest);
}

// Pieces lie in their tensors and fill their files from the header to the end.
// The pieces are in the order of files and offsets, so one pass with one index checks that none
// overlaps and no byte is left over.
Status CheckPieces(const Manifest& manifest) {
  size_t next = 0;
  for (size_t i = 0; i < manifest.files.size(); ++i) {
    const PieceFile& file = manifest.files[i];
    uint64_t at = file.header_bytes;
    for (; next < manifest.pieces.size() && manifest.pieces[next].file == i; ++next) {
      const Piece& piece = manifest.pieces[next];
      const std::string what = "piece " + Printable(piece.name) + " of " + file.name + " ";
      if (piece.tensor >= manifest.tensors.size()) return DataLoss(what + "is of no tensor");
      const TensorInfo& tensor = manifest.tensors[piece.tensor];
      if (piece.box.dims() != tensor.shape.size() || !piece.box.InsideOf(tensor.shape)) {
        return DataLoss(what + "lies outside of its tensor");
      }
      if (piece.offset != at || PieceBytes(manifest, piece) > file.bytes - at) {
        return DataLoss(what + "leaves a hole, overlaps or is cut");
      }
      at += PieceBytes(manifest, piece);
    }
    if (at != file.bytes) return DataLoss(file.name + " has bytes of no piece");
  }
  if (next != manifest.pieces.size()) return DataLoss("its pieces are out of order");
  return {};
}

// What a manifest must be beside its form.
Status CheckSense(const Manifest& manifest) {
  RETURN_IF_ERROR(CheckFiles(manifest));
  const Result<StatePlan> plan = StatePlan::Create(manifest.tensors);
  if (!plan.ok()) return DataLoss(plan.status().message());
  return CheckPieces(manifest);
}

std::string Number(const char* key, uint64_t value) {
  return "\"" + std::string(key) + "\": " + std::to_string(value);
}

std::string Numbers(const char* key, const std::vector<int64_t>& values) {
  std::vector<std::string> texts;
  for (const int64_t value : values) texts.push_back(std::to_string(value));
  return "\"" + std::string(key) + "\": [" + Join(texts, ", ") + "]";
}

// With as many digits as give the same number back; nothing without one.
std::string LossLine(const Manifest& manifest) {
  if (!manifest.validation_loss) return "";
  char text[64];
  const double loss = *manifest.validation_loss + 0.0;  // one form of zero
  std::snprintf(text, sizeof(text), ",\n\"validation_loss\": %.17g", loss);
  return text;
}

std::string FileLine(const PieceFile& file) {
  const std::vector<int64_t> also(file.also.begin(), file.also.end());
  return "{\"name\": " + Quoted(file.name) + ", " + Number("rank", file.rank) + ", " +
         Number("bytes", file.bytes) + ", " + Number("header_bytes", file.header_bytes) +
         ", \"hash\": \"" + Hex(file.hash) + "\"" +
         (also.empty() ? "" : ", " + Numbers("also", also)) + "}";
}

std::string TensorLine(const TensorInfo& tensor) {
  return "{\"name\": " + Quoted(tensor.name) + ", \"dtype\": " + Quoted(tensor.dtype) + ", " +
         Numbers("shape", tensor.shape) + "}";
}

std::string PieceLine(const Piece& piece) {
  return "{" + Number("tensor", piece.tensor) + ", " + Number("file", piece.file) +
         ", \"name\": " + Quoted(piece.name) + ", " + Numbers("offset", piece.box.offsets()) +
         ", " + Numbers("extent", piece.box.shape()) + ", " + Number("at", piece.offset) +
         ", \"hash\": \"" + Hex(piece.hash) + "\"}";
}

template <typename Item, typename Line>
std::string Lines(const char* key, const std::vector<Item>& items, Line line) {
  std::string text = "\"" + std::string(key) + "\": [\n";
  for (size_t i = 0; i < items.size(); ++i) {
    text += line(items[i]);
    text += i + 1 < items.size() ? ",\n" : "\n";
  }
  return text + "]";
}

void ReadTensors(const json& list, Reader& reader, Manifest& manifest) {
  for (const json& entry : list) {
    TensorInfo& tensor = manifest.tensors.emplace_back();
    reader.Read(entry, "name", tensor.name);
    reader.Read(entry, "dtype", tensor.dtype);
    reader.Read(entry, "shape", tensor.shape);
  }
}

void ReadFiles(const json& list, Reader& reader, Manifest& manifest) {
  for (const json& entry : list) {
    PieceFile& file = manifest.files.emplace_back();
    reader.Read(entry, "name", file.name);
    reader.Read(entry, "rank", file.rank);
    reader.Read(entry, "bytes", file.bytes);
    reader.Read(entry, "header_bytes", file.header_bytes);
    reader.ReadHash(entry, "hash", file.hash);
    if (entry.contains("also")) reader.Read(entry, "also", file.also);
  }
}

void ReadPieces(const json& list, Reader& reader, Manifest& manifest) {
  for (const json& entry : list) {
    Piece& piece = manifest.pieces.emplace_back();
    std::vector<int64_t> offset, extent;
    reader.Read(entry, "tensor", piece.tensor);
    reader.Read(entry, "file", piece.file);
    reader.Read(entry, "name", piece.name);
    reader.Read(entry, "offset", offset);
    reader.Read(entry, "extent", extent);
    reader.Read(entry, "at", piece.offset);
    reader.ReadHash(entry, "hash", piece.hash);
    if (offset.size() == extent.size()) {
      piece.box = Box::At(offset, extent);
    } else {
      reader.Refuse();
    }
  }
}

}  // namespace

std::string PieceName(uint32_t rank, uint32_t world) {
  char name[64];
  std::snprintf(name, sizeof(name), "rank-%05u-of-%05u.safetensors", rank, world);
  return name;
}

const PieceFile* FileOfRank(const Manifest& manifest, uint32_t rank) {
  for (const PieceFile& file : manifest.files) {
    if (file.rank == rank || std::binary_search(file.also.begin(), file.also.end(), rank)) {
      return &file;
    }
  }
  return nullptr;
}

uint64_t PieceBytes(const Manifest& manifest, const Piece& piece) {
  return static_cast<uint64_t>(piece.box.elements()) *
         DtypeBytes(manifest.tensors[piece.tensor].dtype).value_or(0);
}

namespace {

// The key of the attempt's number, and the one that versions before 0.1 wrote and that is still
// read.
constexpr const char* kAttemptKey = "attempt";
constexpr const char* kOldAttemptKey = "epoch";

std::string Encode(const Manifest& manifest, const char* attempt_key) {
  const DataCursor& data = manifest.data;
  const std::string text =
      "{\n" + Number("format_version", kFormatVersion) + ",\n\"job\": " + Quoted(manifest.job) +
      ",\n" + Number("step", manifest.step) + ",\n" + Number(attempt_key, manifest.attempt) +
      ",\n" + Number("world", manifest.world) +
      ",\n\"replicated\": " + (manifest.replicated ? "true" : "false") + LossLine(manifest) +
      ",\n\"data\": {" + Number("samples_consumed", data.samples_consumed) + ", " +
      Number("samples", data.samples) + ", " + Number("global_batch", data.global_batch) + ", " +
      Number("seed", data.seed) + ", \"fingerprint\": " + Quoted(data.fingerprint) + "},\n" +
      Lines("tensors", manifest.tensors, TensorLine) + ",\n" +
      Lines("files", manifest.files, FileLine) + ",\n" +
      Lines("pieces", manifest.pieces, PieceLine) + "\n}\n";
  return text + std::string(kHashPrefix) + Hex(Hash64(text)) + "\n";
}

}  // namespace

std::string EncodeManifest(const Manifest& manifest) { return Encode(manifest, kAttemptKey); }

Result<Manifest> DecodeManifest(std::string_view text) {
  if (text.size() < kHashLineBytes) return DataLoss("the manifest is cut short");
  const std::string_view body = text.substr(0, text.size() - kHashLineBytes);
  // The hash is compared as text and before anything is parsed, so that the parser sees only what a
  // writer has produced.
  const std::string hash_line = std::string(kHashPrefix) + Hex(Hash64(body)) + "\n";
  if (text.substr(body.size()) != hash_line) return DataLoss("the manifest's hash differs");

  const json parsed = json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return DataLoss("the manifest is not a JSON object");
  Reader reader;
  uint32_t version = 0;
  reader.Read(parsed, "format_version", version);
  // Before the other fields: another version may have other fields, and the message should name the
  // cause.
  if (version != kFormatVersion) {
    return DataLoss("the manifest is of format " + std::to_string(version) + ", not 2");
  }
  Manifest manifest;
  reader.Read(parsed, "job", manifest.job);
  reader.Read(parsed, "step", manifest.step);
  const char* attempt_key = parsed.contains(kAttemptKey) ? kAttemptKey : kOldAttemptKey;
  reader.Read(parsed, attempt_key, manifest.attempt);
  reader.Read(parsed, "world", manifest.world);
  reader.Read(parsed, "replicated", manifest.replicated);
  if (const auto loss = parsed.find("validation_loss"); loss != parsed.end()) {
    if (!loss->is_number()) reader.Refuse();
    manifest.validation_loss = loss->is_number() ? loss->get<double>() : 0;
  }
  const json no_object = json::object();
  const json& data = reader.Part(parsed, "data", no_object);
  reader.Read(data, "samples_consumed", manifest.data.samples_consumed);
  reader.Read(data, "samples", manifest.data.samples);
  reader.Read(data, "global_batch", manifest.data.global_batch);
  reader.Read(data, "seed", manifest.data.seed);
  reader.Read(data, "fingerprint", manifest.data.fingerprint);
  const json no_array = json::array();
  ReadTensors(reader.Part(parsed, "tensors", no_array), reader, manifest);
  ReadFiles(reader.Part(parsed, "files", no_array), reader, manifest);
  ReadPieces(reader.Part(parsed, "pieces", no_array), reader, manifest);
  if (!reader.complete()) return DataLoss("the manifest lacks a field or has one of another type");
  const Status sense = CheckSense(manifest);
  if (!sense.ok()) return sense.WithContext("the manifest makes no sense");
  // There is one way to write a manifest; another text is not ours, whatever its hash.
  if (Encode(manifest, attempt_key) != text) return DataLoss("the manifest is not in its one form");
  return manifest;
}

}  // namespace longhaul::checkpoint
