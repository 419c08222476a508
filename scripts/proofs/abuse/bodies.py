"""Bodies and values that are expensive to read, for the attacks on an event loop's time."""
import base64, json

def filled(unit, size):
    return unit * (size // len(unit.encode()))


def texts(size):
    """Texts of about `size` bytes that are expensive to count, compare, decode or escape."""
    yield "letters", filled("a", size)
    yield "syllables", filled("가", size)
    yield "marks", "e" + filled("\u0301", size - 1)
    yield "pairs", filled("e\u0301", size)
    yield "jamo", filled("\u1112\u1161\u11ab", size)
    yield "flags", filled("\U0001f1f0", size)
    yield "families", filled("\U0001f468\u200d\U0001f469\u200d", size)
    yield "capitals", filled("İ", size)
    yield "digits", filled("9", size)
    yield "quotes", filled('"', size // 2)
    yield "spaces", filled(" ", size)
    yield "commas", filled("a,", size)
    yield "dots", filled("a.", size)
    yield "slashes", filled("a/", size)
    yield "pairs of a query", filled("a=b&", size)
    yield "address", "https://" + filled("a.", size - 20) + "com"
    yield "arrays in a text", filled("[", size)
    yield "objects in a text", '{"a":' * 100 + "[" + filled("0,", size - 1000) + "0]" + "}" * 100
    yield "numbers in a text", "[" + filled("1,", size - 10) + "1]"
    yield "members in a text", "{" + ",".join(f'"{number:x}":0' for number in range(size // 9)) + "}"


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def templates(size):
    """Templates of about `size` bytes that are expensive to inspect."""
    link = {"web_url": "https://example.com"}
    text = {"object_type": "text", "text": "Hi", "link": link}
    content = {"title": "a", "image_url": "https://example.com/a.png", "link": link}

    def members(name):
        """As many members as there is room for."""
        return {name(number): 0 for number in range((size - 300) // (len(name(size).encode()) + 5))}

    def elements(element):
        return [element] * ((size - 300) // (len(compact(element)) + 1))

    for title, name in (("unknown", "{:x}"), ("similar", "Web_ur{:x}"), ("capital", "İ{:x}"), ("underscored", "_{:x}")):
        unknown = members(name.format)
        yield f"{title} members", {**text, **unknown}
        yield f"{title} members of a link", {**text, "link": unknown}
        yield f"{title} members of items", {"object_type": "feed", "content": content, "item_content": unknown}
        yield f"{title} members of a list", {"object_type": "list", "contents": [unknown]}
    yield "buttons", {**text, "buttons": elements({})}
    yield "buttons that are no objects", {**text, "buttons": elements(0)}
    yield "buttons with links", {**text, "buttons": elements({"title": "a", "link": {"a": 0}})}
    yield "buttons with addresses", {**text, "buttons": elements({"title": "a", "link": {"web_url": "http://a.b"}})}
    yield "contents", {"object_type": "list", "header_title": "a", "header_link": link, "contents": elements({})}
    yield "contents with links", {"object_type": "list", "header_title": "a", "header_link": link, "contents": elements(content)}
    yield "items", {"object_type": "feed", "content": content, "item_content": {"items": elements({"item": ""})}}
    for name, value in texts(size // 2):
        if len(compact(value)) < size - 300:
            yield "text of " + name, {**text, "text": value}
            yield "address of " + name, {**text, "link": {"web_url": "https://" + value[:1300], "android_execution_params": value[: size // 4]}}


def tokens(size):
    """JSON Web Tokens that are expensive to read."""
    encode = lambda value: base64.urlsafe_b64encode(value.encode()).decode().rstrip("=")
    yield "dots", filled("a.", size)
    yield "letters", filled("a", size)
    yield "claims", ".".join([encode('{"alg":"RS256","kid":"a","typ":"secevent+jwt"}'),
        encode(json.dumps({f"a{number}": 0 for number in range(size // 20)})), "a" * 342])
    yield "nested", ".".join([encode("[" * (size // 2)), "a", "a"])


def raw_json(size):
    """JSON that is expensive to parse, whatever the fields are."""
    yield "unknown members", "{" + ",".join(f'"{number:x}":0' for number in range(size // 9)) + "}"
    yield "long names", "{" + ",".join(f'"{"a" * 30}{number}":0' for number in range(size // 45)) + "}"
    yield "repeated at the end", "{" + ",".join(f'"{number:x}":0' for number in range(size // 9)) + ',"0":0}'
    yield "nested arrays", "[" * size
    yield "nested objects", '{"a":' * (size // 5)
    yield "numbers", "[" + filled("0,", size - 2) + "0]"
    yield "empty objects", "[" + filled("{},", size - 4) + "{}]"
    yield "empty texts", '{"a":[' + filled('"",', size - 10) + '""]}'
    yield "escapes", '{"a":"' + filled("\\u0041", size - 10) + '"}'
    yield "short escapes", '{"a":"' + filled("\\n", size - 10) + '"}'
    yield "surrogates", '{"a":"' + filled("\\ud83d\\ude00", size - 20) + '"}'
    yield "long number", '{"a":' + "9" * (size - 10) + "}"
    yield "spaces", " " * (size - 2) + "{}"


def raw_form(size, names):
    """Forms that are expensive to parse."""
    name = names[0] if names else "a"
    yield "fields", "&".join(f"{number:x}=" for number in range(1000))
    yield "long fields", "&".join(f"{number:x}=" + "%41" * 18 for number in range(1000))
    yield "too many fields", filled("a&", size)
    yield "ampersands", "&" * size
    yield "escapes", name + "=" + filled("%EA%B0%80", size - 70)
    yield "invalid at the end", name + "=" + filled("%41", size - 70) + "%FF"
    yield "repeated", "&".join([f"{name}=a"] * 1000)
    if names:
        yield "repeated lists", "&".join([f"{name}=" + "a," * 20] * 1000)[:size]
