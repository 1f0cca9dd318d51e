# What a CGI script prints becomes the head of a response by the rules that crates/cgi has, however it is cut into pieces.
use strict;
use warnings;
use lib 't/lib';

use Howdah::CGI::Head;
use Howdah::Test::File qw(read_file);
use JSON::PP ();
use Test::More;

my $table = JSON::PP::decode_json(read_file('t/vectors/cgi-heads.json'));

# As the table writes it.
sub escape {
    my %short = ("\t" => '\t', "\r" => '\r', "\n" => '\n', '"' => '\"', q{'} => q{\'}, '\\' => '\\\\');
    return $_[0] =~ s/([^ -~]|["'\\])/$short{$1} \/\/ sprintf '\x%02x', ord $1/ger;
}

sub show {
    my $head = shift;
    return "-> $head->{redirect}" if defined $head->{redirect};
    my ($lines, %told) = ('');
    my @fields = @{$head->{fields}};
    while (my ($name, $value) = splice @fields, 0, 2) {
        my $known = lc $name;
        if ($known eq 'content-length') { $told{length} = " length $value" }
        elsif ($known eq 'connection') { $told{close} = ' close' if $value =~ /\bclose\b/i }
        elsif ($known eq 'transfer-encoding') { $told{chunked} = ' chunked' if $value =~ /\bchunked\b/i }
        elsif ($known !~ /^(?:keep-alive|proxy-connection|te|trailer|upgrade)$/) {
            $lines .= escape("$name: $value") . '|';
        }
    }
    return join '', $head->{status}, (map { $told{$_} // '' } qw(length close chunked)), ' ', $lines;
}

sub answer {
    my ($nph, @pieces)     = @_;
    my ($printed, $length) = ('', 0);
    for my $piece (@pieces) {
        $printed .= $piece;
        $length += length $piece;
        my $head = eval { Howdah::CGI::Head->take(\$printed, $nph) };
        return $@ if $@;
        return show($head) . ' @' . ($length - length $printed) if $head;
    }
    return Howdah::CGI::Head->unended($printed);
}

for my $nph (0, 1) {
    for my $row (@{$table->{$nph ? 'nph' : 'heads'}}) {
        my ($output, $expected) = @$row;
        my $name = escape($output);
        is answer($nph, $output) =~ s/\n\z//r, $expected, $name;
        is answer($nph, split //, $output) =~ s/\n\z//r, $expected, '... byte by byte';
    }
}

my $most = 'Content-Type: ' . 'x' x 65_520 . "\n\n";
is length $most, 65_536;
is ref Howdah::CGI::Head->take(\$most, 0), 'HASH', 'a head may have 65536 bytes';

my $long = 'x' x 65_537;
for my $output ($long, "A: $long\n\n", "Content-Type: x\n" . "a:b\n" x 14_000 . "\n") {
    my $printed = $output;
    eval { Howdah::CGI::Head->take(\$printed, 0) };
    like $@, qr/header is longer than 65536 bytes/, 'a head is bounded';
}

done_testing;
