#include "objects/listing.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text.h"
#include "base/utf8.h"

namespace longhaul::objects {
namespace {

constexpr size_t kMaxDepth = 16;
constexpr size_t kMaxText = 4096;  // a key has at most 1024 bytes

// Walks through the elements: calls `end(path, text)` at each one's end, with the names from the
// root down. Text between child elements is dropped.
class XmlWalker {
 public:
  explicit XmlWalker(std::string_view xml) : rest_(xml) {}

  template <typename End>
  Status Walk(End end) {
    if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
    bool rooted = false;
    while (!rest_.empty()) {
      if (rest_.front() != '<') {
        RETURN_IF_ERROR(TakeText());
        continue;
      }
      if (rest_.starts_with("<?") || rest_.starts_with("<!--")) {
        RETURN_IF_ERROR(Skip(rest_[1] == '?' ? "?>" : "-->"));
        continue;
      }
      if (rest_.starts_with("<!")) return DataLoss("XML with a declaration that isn't known");
      const size_t close = rest_.find('>');
      if (close == std::string_view::npos) return DataLoss("XML that is cut");
      std::string_view tag = rest_.substr(1, close - 1);
      rest_.remove_prefix(close + 1);
      if (tag.starts_with("/")) {
        tag.remove_prefix(1);
        if (path_.empty() || path_.back() != NameOf(tag)) return DataLoss("XML that isn't nested");
        RETURN_IF_ERROR(end(path_, text_));
        path_.pop_back();
        text_.clear();
        continue;
      }
      const bool empty = tag.ends_with("/");
      const std::string name = NameOf(tag);
      if (name.empty() || (path_.empty() && rooted)) return DataLoss("XML that isn't nested");
      if (path_.size() == kMaxDepth) return DataLoss("XML that is too deep");
      rooted = true;
      path_.push_back(name);
      text_.clear();
      if (!empty) continue;
      RETURN_IF_ERROR(end(path_, text_));
      path_.pop_back();
    }
    if (!rooted || !path_.empty()) return DataLoss("XML that is cut");
    return {};
  }

 private:
  static std::string NameOf(std::string_view tag) {
    const size_t end = tag.find_first_of(" \t\r\n/");
    return std::string(tag.substr(0, end));
  }

  Status Skip(std::string_view end) {
    const size_t at = rest_.find(end, 2);
    if (at == std::string_view::npos) return DataLoss("XML that is cut");
    rest_.remove_prefix(at + end.size());
    return {};
  }

  Status TakeText() {
    const size_t next = rest_.find('<');
    std::string_view text = rest_.substr(0, next);
    rest_.remove_prefix(text.size());
    while (!text.empty()) {
      if (text_.size() > kMaxText) return DataLoss("XML with a text that is too long");
      if (text.front() != '&') {
        const size_t entity = text.find('&');
        text_ += text.substr(0, std::min(entity, kMaxText + 1));
        text.remove_prefix(std::min(std::min(entity, text.size()), kMaxText + 1));
        continue;
      }
      const size_t semicolon = text.find(';');
      if (semicolon == std::string_view::npos) return DataLoss("XML with a broken entity");
      const auto character = Entity(text.substr(1, semicolon - 1));
      if (!character.has_value()) return DataLoss("XML with an entity that isn't known");
      text_ += *character;
      text.remove_prefix(semicolon + 1);
    }
    return {};
  }

  static std::optional<std::string> Entity(std::string_view name) {
    constexpr std::pair<std::string_view, const char*> kNamed[] = {
        {"amp", "&"}, {"lt", "<"}, {"gt", ">"}, {"quot", "\""}, {"apos", "'"}};
    for (const auto& [known, text] : kNamed) {
      if (name == known) return text;
    }
    if (!name.starts_with("#") || name.size() > 8) return std::nullopt;
    name.remove_prefix(1);
    const bool hex = name.starts_with("x");
    if (hex) name.remove_prefix(1);
    uint32_t point = 0;
    if (name.empty()) return std::nullopt;
    for (const char c : name) {
      const bool digit = c >= '0' && c <= '9';
      const bool letter = hex && ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'));
      if (!digit && !letter) return std::nullopt;
      const int value = digit ? c - '0' : (c | 32) - 'a' + 10;
      point = point * (hex ? 16 : 10) + static_cast<uint32_t>(value);
    }
    if (point == 0 || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000)) return std::nullopt;
    return Encode(point);
  }

  static std::string Encode(uint32_t point) {
    const auto tail = [point](int shift) {
      return static_cast<char>(0x80 | (point >> shift & 0x3F));
    };
    if (point < 0x80) return {static_cast<char>(point)};
    if (point < 0x800) return {static_cast<char>(0xC0 | point >> 6), tail(0)};
    if (point < 0x10000) return {static_cast<char>(0xE0 | point >> 12), tail(6), tail(0)};
    return {static_cast<char>(0xF0 | point >> 18), tail(12), tail(6), tail(0)};
  }

  std::string_view rest_;
  std::vector<std::string> path_;
  std::string text_;
};

bool Ends(const std::vector<std::string>& path, std::string_view parent, std::string_view name) {
  return path.size() >= 2 && path[path.size() - 2] == parent && path.back() == name;
}

}  // namespace

Result<Listing> ParseListing(std::string_view xml) {
  constexpr std::string_view kRoot = "ListBucketResult";
  Listing listing;
  Listing::Object object;
  bool sized = false;
  bool is_listing = false;
  const Status walked = XmlWalker(xml).Walk(
      [&](const std::vector<std::string>& path, const std::string& text) -> Status {
        is_listing = path.front() == kRoot;
        if (!is_listing) return DataLoss("not a listing but " + Printable(path.front()));
        if (Ends(path, "Contents", "Key")) object.key = text;
        if (Ends(path, "Contents", "Size")) {
          ASSIGN_OR_RETURN(object.bytes, ParseUint64(text));
          sized = true;
        }
        if (Ends(path, kRoot, "Contents")) {
          if (object.key.empty() || !sized) return DataLoss("an object without key or size");
          if (!IsUtf8(object.key)) return DataLoss("a key that isn't UTF-8");
          listing.objects.push_back(std::exchange(object, {}));
          sized = false;
        }
        if (Ends(path, "CommonPrefixes", "Prefix")) {
          if (!IsUtf8(text)) return DataLoss("a prefix that isn't UTF-8");
          listing.prefixes.push_back(text);
        }
        if (Ends(path, kRoot, "IsTruncated")) listing.truncated = text == "true";
        if (Ends(path, kRoot, "NextContinuationToken")) listing.next = text;
        return {};
      });
  if (!walked.ok()) return DataLoss("listing: " + walked.message());
  if (listing.truncated && listing.next.empty()) {
    return DataLoss("listing: cut without saying where to continue");
  }
  return listing;
}

Result<std::string> TextOf(std::string_view xml, std::string_view element) {
  std::optional<std::string> found;
  RETURN_IF_ERROR(XmlWalker(xml).Walk(
      [&](const std::vector<std::string>& path, const std::string& text) -> Status {
        if (path.back() == element && !found.has_value()) found = text;
        return {};
      }));
  if (!found.has_value()) return DataLoss("an answer without " + std::string(element));
  return *found;
}

}  // namespace longhaul::objects
