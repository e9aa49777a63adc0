#include "checkpoint/manifest.h"

#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/hash.h"
#include "base/text.h"

namespace longhaul::checkpoint {
namespace {

using nlohmann::json;

constexpr uint32_t kFormatVersion = 1;
constexpr std::string_view kHashPrefix = "xxh3-64:";
constexpr size_t kHashLineBytes = 8 + 16 + 1;  // prefix, digits, line end

std::string Hex(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::string Quoted(const std::string& text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<uint64_t> FromHex(const std::string& text) {
  if (text.size() != 16) return std::nullopt;
  uint64_t value = 0;
  for (const char c : text) {
    const std::string_view kDigits = "0123456789abcdef";
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    value = value << 4 | digit;
  }
  return value;
}

// Fills a manifest from JSON; fields that are absent or of another type are left and counted.
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
  // An empty value of the wanted kind when it is absent.
  const json& Part(const json& from, const char* key, const json& otherwise) {
    const auto found = from.find(key);
    if (found != from.end() && found->type() == otherwise.type()) return *found;
    ++missing_;
    return otherwise;
  }

  bool complete() const { return missing_ == 0; }

 private:
  int missing_ = 0;
};

// What a manifest must be beside its form.
Status CheckSense(const Manifest& manifest) {
  if (manifest.step == 0 || manifest.world == 0) return DataLoss("step and world are from 1");
  if (manifest.files.empty()) return DataLoss("it names no files");
  if (!manifest.replicated && manifest.files.size() != manifest.world) {
    return DataLoss("it names " + std::to_string(manifest.files.size()) + " files for " +
                    std::to_string(manifest.world) + " ranks");
  }
  for (size_t i = 0; i < manifest.files.size(); ++i) {
    const PieceFile& file = manifest.files[i];
    if (file.rank >= manifest.world || (i > 0 && file.rank <= manifest.files[i - 1].rank)) {
      return DataLoss("its ranks are out of order");
    }
    // Also keeps a name from leading out of the directory.
    if (file.name != PieceName(file.rank, manifest.world)) {
      return DataLoss("the file of rank " + std::to_string(file.rank) + " has a wrong name");
    }
  }
  return {};
}

}  // namespace

std::string PieceName(uint32_t rank, uint32_t world) {
  char name[64];
  std::snprintf(name, sizeof(name), "rank-%05u-of-%05u.safetensors", rank, world);
  return name;
}

std::string EncodeManifest(const Manifest& manifest) {
  const auto number = [](const char* key, uint64_t value) {
    return "\"" + std::string(key) + "\": " + std::to_string(value);
  };
  const DataCursor& data = manifest.data;
  std::vector<std::string> files;
  for (const PieceFile& file : manifest.files) {
    files.push_back("{\"name\": " + Quoted(file.name) + ", " + number("rank", file.rank) + ", " +
                    number("bytes", file.bytes) + ", \"hash\": \"" + Hex(file.hash) + "\"}");
  }
  const std::string text =
      "{\n" + number("format_version", kFormatVersion) + ",\n\"job\": " + Quoted(manifest.job) +
      ",\n" + number("step", manifest.step) + ",\n" + number("epoch", manifest.epoch) + ",\n" +
      number("world", manifest.world) +
      ",\n\"replicated\": " + (manifest.replicated ? "true" : "false") + ",\n\"data\": {" +
      number("samples_consumed", data.samples_consumed) + ", " + number("samples", data.samples) +
      ", " + number("global_batch", data.global_batch) + ", " + number("seed", data.seed) +
      ", \"fingerprint\": " + Quoted(data.fingerprint) + "},\n\"files\": [\n" + Join(files, ",\n") +
      "\n]\n}\n";
  return text + std::string(kHashPrefix) + Hex(Hash64(text)) + "\n";
}

Result<Manifest> DecodeManifest(std::string_view text) {
  if (text.size() < kHashLineBytes) return DataLoss("the manifest is cut short");
  const std::string_view body = text.substr(0, text.size() - kHashLineBytes);
  const std::string hash_line = std::string(kHashPrefix) + Hex(Hash64(body)) + "\n";
  if (text.substr(body.size()) != hash_line) return DataLoss("the manifest's hash differs");

  const json parsed = json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return DataLoss("the manifest is not a JSON object");
  Reader reader;
  uint32_t version = 0;
  reader.Read(parsed, "format_version", version);
  if (version != kFormatVersion) {
    return DataLoss("the manifest is of format " + std::to_string(version) + ", not 1");
  }
  Manifest manifest;
  reader.Read(parsed, "job", manifest.job);
  reader.Read(parsed, "step", manifest.step);
  reader.Read(parsed, "epoch", manifest.epoch);
  reader.Read(parsed, "world", manifest.world);
  reader.Read(parsed, "replicated", manifest.replicated);
  const json no_object = json::object();
  const json& data = reader.Part(parsed, "data", no_object);
  reader.Read(data, "samples_consumed", manifest.data.samples_consumed);
  reader.Read(data, "samples", manifest.data.samples);
  reader.Read(data, "global_batch", manifest.data.global_batch);
  reader.Read(data, "seed", manifest.data.seed);
  reader.Read(data, "fingerprint", manifest.data.fingerprint);
  const json no_array = json::array();
  for (const json& entry : reader.Part(parsed, "files", no_array)) {
    PieceFile& file = manifest.files.emplace_back();
    std::string hash;
    reader.Read(entry, "name", file.name);
    reader.Read(entry, "rank", file.rank);
    reader.Read(entry, "bytes", file.bytes);
    reader.Read(entry, "hash", hash);
    const std::optional<uint64_t> value = FromHex(hash);
    if (!value) return DataLoss("the manifest has a malformed hash");
    file.hash = *value;
  }
  if (!reader.complete()) return DataLoss("the manifest lacks a field or has one of another type");
  const Status sense = CheckSense(manifest);
  if (!sense.ok()) return sense.WithContext("the manifest makes no sense");
  // There is one way to write a manifest; another text is not ours, whatever its hash.
  if (EncodeManifest(manifest) != text) return DataLoss("the manifest is not in its one form");
  return manifest;
}

}  // namespace longhaul::checkpoint
