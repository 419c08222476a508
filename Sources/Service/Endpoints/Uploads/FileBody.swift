import JSON
import Net
import Schemas

/// A body with files: a form, `multipart/form-data`, or one file as the body itself.
package struct FileBody: Sendable {
    /// The fields of the form, other than the files.
    let fields: [any FieldDeclaration]
    /// The name of the form's files. A part with the name of a file is one too, whatever the name of the part.
    let part: String
    /// The maximum number of files.
    let maximumFiles: Int
    /// The media types of a body that is a file; empty if each request has a form.
    private let types: [String]
    let description: String

    package init(
        fields: [any FieldDeclaration] = [],
        part: String,
        maximumFiles: Int = 1,
        orBody types: [String] = [],
        _ description: String
    ) {
        self.fields = fields
        self.part = part
        self.maximumFiles = maximumFiles
        self.types = types
        self.description = description
    }

    var mediaTypes: [String] { types + [MultipartParser.mediaType] }

    /// Returns the media types with their schemas, as an OpenAPI document has them.
    func content(allowingOthers: Bool, named name: String, _ object: (Schema) -> JSONValue) -> JSONObject {
        var content = JSONObject()
        for type in types { content[type] = ["schema": object(.binary)] }
        let file = maximumFiles == 1 ? Schema.binary : .array(of: .binary, count: 1...maximumFiles)
        let members = [
            (name: part, schema: file.described(maximumFiles == 1 ? "The file." : "The files."), isRequired: true)
        ]
        let form = Schema.object(
            members + fields.map { ($0.name, $0.schema, $0.isRequired) },
            allowingOthers: allowingOthers
        )
        content[MultipartParser.mediaType] = ["schema": object(form.named(name))]
        return content
    }
}

extension Schema {
    /// The content of a file.
    fileprivate static let binary = Schema.text(format: "binary")
}
