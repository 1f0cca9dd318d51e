# UseModWiki, as Debian has it but for where its configuration is (the program has no other way to say it): pages are
# written, compared, searched and refused.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Carry;
use Test::More;

my $debian = '/usr/lib/cgi-bin/wiki.pl';
my $dir    = File::Temp->newdir;
my ($program, $kept) = ("$dir/wiki.pl", "$dir/kept.pl");
if (-x $debian) {
    open my $in, '<:raw', $debian or die "$debian: $!";
    my $text = join '', <$in>;
    $text =~ s{"/etc/usemod-wiki/config"}{"$dir/config"} or die 'no place of the configuration';
    $text =~ s{"/var/lib/usemod-wiki"}{"$dir/data"} or die 'no place of the data';
    write_file($program, $text);
    write_file("$dir/config", qq{\$SiteName = 'Camels'; \$UseLookup = 0; \$EditAllowed = 1; 1;\n});

    # A worker cannot turn taint checks on for one script.
    write_file($kept, $text =~ s/\A(#!.*) -wT$/$1 -w/mr);
    chmod 0755, $program, $kept or die $!;
}

sub write_file {
    my ($name, $text) = @_;
    open my $out, '>:raw', $name or die "cannot write $name: $!";
    print {$out} $text;
    return close $out;
}

# What the browser sends of the form of a page, with another text.
sub save {
    my ($agent, $page, $text) = @_;
    my $form   = $agent->get("?action=edit&id=$page")->content;
    my %fields = $form =~ /<input type="hidden" name="(\w+)" value="([^"]*)"/g;
    is $fields{title}, $page, "the form of $page";
    return $agent->post('', [%fields, text => $text, summary => "About $page", Save => 'Save']);
}

Howdah::Test::Carry->new(
    program => $program,
    at      => '/wiki',
    kept    => $kept,
    ways    => [qw(wrapped exec fork keep)],
)->walk(sub {
    my ($agent, $way) = @_;
    my $page  = 'Camel' . ucfirst $way;
    my $empty = $agent->get("?$page");
    like $empty->decoded_content, qr/Describe the new page here/, 'a page that nobody has written';
    my $saved = save($agent, $page, "A '''camel''' has humps.\n* one\n* two, and \xc3\xa9t\xc3\xa9\n\n[[Free Link]]");
    is $saved->code, 302, 'saving redirects';
    like $saved->header('Location'), qr{^http://127\.0\.0\.1:\d+/wiki\?$page$}, 'to the page';
    like $agent->get("?$page")->content, qr{<strong>camel</strong> has humps.*<li> two, and \xc3\xa9t\xc3\xa9}s,
        'which is there';
    is save($agent, $page, "A '''dromedary''' has one hump.")->code, 302, 'again';
    like $agent->get("?action=history&id=$page")->content, qr/Revision 2.*Revision 1/s, 'its history';
    like $agent->get("?action=browse&diff=1&id=$page")->content, qr/humps.*dromedary/s,
        'the difference, which diff tells';
    like $agent->get("?action=browse&id=$page&revision=1")->content, qr/camel/, 'what was';
    like $agent->get('?search=dromedary')->content, qr/>$page</, 'searched';
    like $agent->get('?action=rc')->content, qr/About $page/, 'recent changes';
    like $agent->get('?action=rss')->content, qr{<title>$page</title>}, 'as a feed';
    is $agent->get('?action=rss')->content_type, 'text/xml', 'of its type';
    like $agent->get('?action=editprefs')->header('Set-Cookie'), qr/^Wiki=/, 'a cookie';
    is $agent->post('', [edit_prefs => 1, p_username => "Ada $way", Save => 'Save'])->code, 200, 'with a name';
    like $agent->get('?action=editprefs')->content, qr/"p_username" value="Ada[_ ]$way"/i, 'that is kept';
    like save($agent, $page, 'x' x 300_000)->content, qr/CGI\.pm: 413|too large|Describe|POST/i,
        'a page that is too long';
    unlike $agent->get("?$page")->content, qr/xxxx/, 'is not saved';
});
